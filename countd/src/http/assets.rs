//! The static files of the pages. They are part of the binary.

use crate::domain::error::Problem;
use axum::extract::Path;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use std::sync::LazyLock;

const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// The files by name: media type, content and ETag.
static ASSETS: LazyLock<[Asset; 6]> = LazyLock::new(|| {
    [
        Asset::new("base.css", CSS, include_bytes!("assets/base.css")),
        Asset::new("console.css", CSS, include_bytes!("assets/console.css")),
        Asset::new("console.js", SCRIPT, include_bytes!("assets/console.js")),
        Asset::new("demo.css", CSS, include_bytes!("assets/demo.css")),
        Asset::new("demo.js", SCRIPT, include_bytes!("assets/demo.js")),
        Asset::new(
            "icon.svg",
            "image/svg+xml",
            include_bytes!("assets/icon.svg"),
        ),
    ]
});

struct Asset {
    name: &'static str,
    media_type: &'static str,
    content: &'static [u8],
    /// With its quotes.
    etag: String,
}

impl Asset {
    fn new(name: &'static str, media_type: &'static str, content: &'static [u8]) -> Asset {
        Asset {
            name,
            media_type,
            content,
            etag: format!("\"{:016x}\"", xxhash_rust::xxh3::xxh3_64(content)),
        }
    }
}

/// Returns a static file. Clients ask each time whether it has changed, because the next version of countd may have another one.
pub async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Response {
    let Some(asset) = ASSETS.iter().find(|asset| asset.name == name) else {
        return Problem::NoRoute.into_response();
    };
    let Ok(etag) = HeaderValue::from_str(&asset.etag) else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let caching: [(HeaderName, HeaderValue); 2] = [
        (header::ETAG, etag),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ];
    if has_etag(&headers, &asset.etag) {
        return (StatusCode::NOT_MODIFIED, caching).into_response();
    }
    let of_content = [
        (header::CONTENT_TYPE, asset.media_type),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (caching, of_content, asset.content).into_response()
}

/// Whether `If-None-Match` names an ETag.
fn has_etag(headers: &HeaderMap, etag: &str) -> bool {
    let values = headers.get_all(header::IF_NONE_MATCH).iter();
    let tags = values.flat_map(|value| value.to_str().unwrap_or_default().split(','));
    tags.map(str::trim)
        .any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etags_are_compared_weakly() {
        let headers = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::IF_NONE_MATCH, text.parse().expect("a value"));
            headers
        };
        for matching in ["\"a\"", "W/\"a\"", "\"b\", \"a\"", "*"] {
            assert!(has_etag(&headers(matching), "\"a\""), "{matching}");
        }
        for other in ["\"b\"", "a", ""] {
            assert!(!has_etag(&headers(other), "\"a\""), "{other}");
        }
        assert!(!has_etag(&HeaderMap::new(), "\"a\""));
    }
}
