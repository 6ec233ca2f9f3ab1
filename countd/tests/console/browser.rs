//! What a browser does: it keeps the cookie, follows no redirection unasked, and names the site of a form.

use countint_tests::env::deadline;
use std::cell::RefCell;

/// A browser.
pub struct Browser {
    agent: ureq::Agent,
    port: u16,
    cookie: RefCell<String>,
}

/// A response.
pub struct Page {
    /// Its status.
    pub status: u16,
    /// Its body.
    pub text: String,
    headers: ureq::http::HeaderMap,
}

impl Page {
    /// A header; empty if it is missing.
    pub fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value.map_or("", |value| value.to_str().expect("a text"))
    }

    /// The value of the form's secret.
    #[track_caller]
    pub fn form_token(&self) -> &str {
        let input = self.text.split("name=\"form_token\" value=\"").nth(1);
        let value = input.and_then(|rest| rest.split('"').next());
        value.unwrap_or_else(|| panic!("no form: {}", self.text))
    }

    /// Fails unless the page has these texts.
    #[track_caller]
    pub fn assert_has(&self, texts: &[&str]) {
        for text in texts {
            assert!(self.text.contains(text), "no {text}: {}", self.text);
        }
    }
}

/// The header by which browsers name the site of a form.
pub const SAME_ORIGIN: (&str, &str) = ("sec-fetch-site", "same-origin");

impl Browser {
    /// A browser without a cookie.
    pub fn new(port: u16) -> Browser {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_global(Some(deadline(120)));
        Browser {
            agent: config.build().into(),
            port,
            cookie: RefCell::default(),
        }
    }

    /// The cookie.
    pub fn cookie(&self) -> String {
        self.cookie.borrow().clone()
    }

    /// Replaces the cookie.
    pub fn set_cookie(&self, cookie: &str) {
        cookie.clone_into(&mut self.cookie.borrow_mut());
    }

    /// Gets a path.
    #[track_caller]
    pub fn get(&self, path: &str) -> Page {
        self.send("GET", path, &[], "")
    }

    /// Gets a path, which must be a page.
    #[track_caller]
    pub fn page(&self, path: &str) -> Page {
        let page = self.get(path);
        assert_eq!(page.status, 200, "{path}: {}", page.text);
        page
    }

    /// Sends a form from a page of this site.
    #[track_caller]
    pub fn submit(&self, path: &str, fields: &[(&str, &str)]) -> Page {
        self.send("POST", path, &[SAME_ORIGIN], &encode(fields))
    }

    /// Sends a request. A body is a form.
    #[track_caller]
    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Page {
        let mut request = ureq::http::Request::builder()
            .uri(format!("http://127.0.0.1:{}{path}", self.port))
            .method(method);
        let cookie = self.cookie();
        if !cookie.is_empty() {
            request = request.header("cookie", cookie);
        }
        let names_type = headers.iter().any(|(name, _)| *name == "content-type");
        if method == "POST" && !names_type {
            request = request.header("content-type", "application/x-www-form-urlencoded");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body.to_owned()).expect("a request");
        let mut response = self.agent.run(request).expect("a response");
        if let Some(set) = response.headers().get("set-cookie") {
            let set = set.to_str().expect("a text");
            self.set_cookie(set.split(';').next().unwrap_or_default());
        }
        Page {
            status: response.status().as_u16(),
            text: response.body_mut().read_to_string().expect("a text"),
            headers: response.headers().clone(),
        }
    }
}

/// Encodes the fields of a form.
pub fn encode(fields: &[(&str, &str)]) -> String {
    let encoded = |text: &str| {
        let bytes = text.bytes();
        bytes.map(|byte| format!("%{byte:02X}")).collect::<String>()
    };
    let fields = fields.iter();
    let fields = fields.map(|(name, value)| format!("{name}={}", encoded(value)));
    fields.collect::<Vec<_>>().join("&")
}
