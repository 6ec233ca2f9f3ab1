//! The OpenAPI document: its general part, and the limits that the configuration sets.

use super::app::App;
use super::errors;
use crate::domain::config::Config;
use crate::domain::error::ErrorCode;
use serde_json::{Value, json};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::{Modify, OpenApi};
use utoipa_axum::router::OpenApiRouter;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "countd",
        description = "Counts what users do to entities, exactly once, and answers which users did it.\n\n\
        Errors have a body of the media type `application/problem+json` (`ProblemDetails`, RFC 9457) with a code for programs and a \
        description for people. A request that is not valid HTTP/1.1 is answered with 400, a path or headers that are too long with \
        414 or 431; their bodies are the same.\n\n\
        Each response has an `x-trace-id` header: the client's, if it is a valid ID, or else the trace ID of a valid `traceparent` (W3C Trace \
        Context), or a random one. It also has an `x-request-id`: the client's, if it is a valid ID, or a random one."
    ),
    servers((url = "/api/v1"), (url = "/", description = "Short aliases of the same paths")),
    tags(
        (name = "Actions", description = "What users do to entities."),
        (name = "Events", description = "Events of other systems, from outbox tables."),
        (name = "Counters", description = "The counters of entities."),
        (name = "Entities", description = "The authors of entities."),
        (name = "Feeds", description = "The counters of a page of entities, and what a user did to them, in one call."),
        (name = "Users", description = "What a user did, the counters of users, and who performed a metric."),
        (name = "Changes", description = "The entities and users whose counters change, for caches."),
        (name = "Erasure", description = "Erase entities and users, as jobs."),
        (name = "Operations", description = "Health checks, metrics and this document.")
    ),
    security((), ("token" = [])),
    components(schemas(errors::ProblemDetails, errors::ItemError, errors::FailedItem, ErrorCode)),
    modifiers(&BearerScheme)
)]
struct Document;

/// Adds the security scheme of bearer tokens.
struct BearerScheme;

impl Modify for BearerScheme {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("token", scheme);
    }
}

/// A router without routes, whose document has the general part.
pub fn empty() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(Document::openapi())
}

/// The document as JSON, with the limits of the configuration.
pub fn to_json(document: &utoipa::openapi::OpenApi, config: &Config) -> String {
    // Strings and numbers can always be serialized.
    let mut document = serde_json::to_value(document).unwrap_or_default();
    bound_limit(&mut document, config.http.max_batch);
    bound_lists(&mut document, config);
    document.to_string()
}

/// The members of an object; none of any other value.
fn members(value: Option<&mut Value>) -> impl Iterator<Item = (&String, &mut Value)> {
    value.and_then(Value::as_object_mut).into_iter().flatten()
}

/// The elements of a list; none of any other value.
fn elements(value: Option<&mut Value>) -> impl Iterator<Item = &mut Value> {
    value.and_then(Value::as_array_mut).into_iter().flatten()
}

/// Sets the maximum of each parameter `limit`.
fn bound_limit(document: &mut Value, max: usize) {
    for (_, path) in members(document.get_mut("paths")) {
        for (_, operation) in members(Some(path)) {
            for parameter in elements(operation.get_mut("parameters")) {
                if parameter["name"] == "limit" {
                    parameter["schema"]["maximum"] = json!(max);
                }
            }
        }
    }
}

/// Sets the maximum length of each list in a request.
fn bound_lists(document: &mut Value, config: &Config) {
    let (max_batch, max_actions) = (config.http.max_batch, config.http.max_actions);
    for (name, schema) in members(document.pointer_mut("/components/schemas")) {
        if name.starts_with("Ndjson") {
            schema["maxItems"] = json!(max_actions);
        } else if name == "Envelopes" {
            let forms = elements(schema.get_mut("oneOf"));
            let lists = forms.filter(|form| form["type"] == "array");
            lists.for_each(|list| list["maxItems"] = json!(max_actions));
        } else if name.ends_with("Request") {
            let fields = members(schema.get_mut("properties"));
            let lists = fields.filter(|(_, field)| field["type"] == "array");
            lists.for_each(|(_, list)| list["maxItems"] = json!(max_batch));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::domain::config::Config;
    use serde_json::{Value, json};

    fn document(config: &str) -> Value {
        let config = Config::parse(config).expect("valid");
        serde_json::from_str(&crate::http::document(&config)).expect("JSON")
    }

    fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str));
                fields.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }

    #[test]
    fn all_references_of_the_document_resolve() {
        let document = document("");
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.contains(&"#/components/schemas/Action"), "{found:?}");
        for reference in found {
            let pointer = reference.strip_prefix('#').expect("a local reference");
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
    }

    #[test]
    fn limits_of_the_configuration_are_in_the_document() {
        let document = document("[http]\nmax_batch = 7\nmax_actions = 9\n");
        let who = &document["paths"]["/who/{metric}/{etype}/{eid}"]["get"]["parameters"];
        let who = who.as_array().expect("parameters");
        let limit = who.iter().find(|one| one["name"] == "limit");
        let limit = &limit.expect("a limit")["schema"];
        assert_eq!(
            (&limit["minimum"], &limit["maximum"]),
            (&json!(1), &json!(7))
        );
        let text = document.to_string();
        for member in ["oneOf", "parameters", "properties", "schema"] {
            assert!(!text.contains(&format!("\"{member}\":null")), "{member}");
        }
        let schemas = &document["components"]["schemas"];
        for (name, field) in [
            ("CounterBatchRequest", "items"),
            ("CounterBatchRequest", "metrics"),
            ("StatusBatchRequest", "items"),
            ("StatusBatchRequest", "metrics"),
            ("UserCountsBatchRequest", "uids"),
            ("UserCountsBatchRequest", "counters"),
            ("FeedRequest", "items"),
        ] {
            let list = &schemas[name]["properties"][field];
            assert_eq!(list["maxItems"], 7, "{name}.{field}: {list}");
        }
        let lists = document.to_string().matches("\"maxItems\":9").count();
        assert_eq!(lists, 3, "{schemas}");
    }
}
