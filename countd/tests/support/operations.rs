//! The operations of the OpenAPI document, and requests made of their examples.

use super::api::{Api, Response};
use serde_json::Value as Json;

/// An operation of the API.
pub struct Operation {
    /// The HTTP method, in upper case.
    pub method: String,
    /// The path, with its parameters in braces.
    pub path: String,
    /// Its description in the document.
    pub description: Json,
}

/// The operations that the OpenAPI document of a countd describes.
#[track_caller]
pub fn operations(api: &Api) -> Vec<Operation> {
    let (_, document) = api.get("/openapi.json");
    let paths = document["paths"].as_object().expect("paths");
    let of_paths = paths.iter().flat_map(|(path, operations)| {
        let operations = operations.as_object().expect("operations");
        operations.iter().map(|(method, description)| Operation {
            method: method.to_uppercase(),
            path: path.clone(),
            description: description.clone(),
        })
    });
    of_paths.collect()
}

impl Operation {
    /// The method and the path.
    pub fn name(&self) -> (&str, &str) {
        (&self.method, &self.path)
    }

    /// Whether the operation may answer with this status.
    pub fn documents(&self, status: u16) -> bool {
        self.description["responses"][status.to_string()].is_object()
    }

    /// Whether the operation belongs to the API proper: not to health checks, metrics and the document.
    pub fn is_of_api(&self) -> bool {
        self.documents(401) && self.path != "/metrics"
    }

    /// The path with the example parameters. Optional parameters without an example are left out.
    pub fn target(&self) -> String {
        self.target_with(|_, example| example.to_owned())
    }

    /// [`target`](Self::target) with parameters that `value` derives from their names and examples.
    pub fn target_with(&self, value: impl Fn(&str, &str) -> String) -> String {
        let (mut target, mut query) = (self.path.clone(), Vec::new());
        let parameters = self.description["parameters"].as_array();
        for parameter in parameters.into_iter().flatten() {
            let name = parameter["name"].as_str().expect("a name");
            match (parameter["in"].as_str(), parameter["example"].as_str()) {
                (Some("path"), example) => {
                    let example =
                        example.unwrap_or_else(|| panic!("{}: {name} has no example", self.path));
                    target = target.replace(&format!("{{{name}}}"), &value(name, example));
                }
                (Some("query"), Some(example)) => {
                    query.push(format!("{name}={}", value(name, example)));
                }
                (_, None) => assert_eq!(parameter["required"], false, "{}: {name}", self.path),
                _ => {}
            }
        }
        match query.is_empty() {
            true => target,
            false => format!("{target}?{}", query.join("&")),
        }
    }

    /// Each example of a body, with its content type. Without a body, the list is empty.
    pub fn bodies(&self) -> Vec<(String, String)> {
        let contents = self.description["requestBody"]["content"].as_object();
        let text = |(content_type, content): (&String, &Json)| {
            let example = &content["example"];
            assert!(!example.is_null(), "{content_type}: no example");
            let text = match content_type.as_str() {
                "application/x-ndjson" => {
                    let lines = example.as_array().expect("a list of lines");
                    let lines: Vec<String> = lines.iter().map(Json::to_string).collect();
                    lines.join("\n")
                }
                _ => example.to_string(),
            };
            (content_type.clone(), text)
        };
        contents.into_iter().flatten().map(text).collect()
    }

    /// The example of a JSON body, if there is one.
    pub fn json_body(&self) -> Option<Json> {
        let content = &self.description["requestBody"]["content"]["application/json"];
        Some(content["example"].clone()).filter(|example| !example.is_null())
    }

    /// Sends the example request to a path below `root`.
    #[track_caller]
    pub fn send(&self, api: &Api, root: &str) -> Response {
        let target = format!("{root}{}", self.target());
        match self.bodies().first() {
            Some((content_type, body)) => self.send_body(api, &target, (content_type, body)),
            None => api.request_text(&self.method, &target, &[], ""),
        }
    }

    /// Sends a body with its content type.
    #[track_caller]
    pub fn send_body(
        &self,
        api: &Api,
        target: &str,
        (content_type, body): (&str, &str),
    ) -> Response {
        api.request_text(
            &self.method,
            target,
            &[("content-type", content_type)],
            body,
        )
    }
}
