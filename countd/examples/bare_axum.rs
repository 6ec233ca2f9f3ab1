//! The lower bound for `GET /counter/{etype}/{eid}`: an axum handler that replies with a constant, without Redis, authentication,
//! limits, metrics or tracing. `scripts/bench` measures countd beside it.
//!
//!     cargo run --release -p countd --example bare_axum -- 127.0.0.1:8095

use axum::extract::Path;
use axum::http::{HeaderName, header};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};
use std::convert::Infallible;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Reply = ([(HeaderName, &'static str); 1], Json<Value>);

async fn counter(Path((etype, eid)): Path<(String, String)>) -> Result<Reply, Infallible> {
    let counts = json!({ "comment": 0, "fav": 0, "like": 0, "read": 0, "repost": 0 });
    let body = json!({ "etype": etype, "eid": eid, "counts": counts });
    Ok(([(header::SERVER, "bare")], Json(body)))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).ok_or("an address is required")?;
    let listener = tokio::net::TcpListener::bind(address).await?;
    let app = Router::new().route("/counter/{etype}/{eid}", get(counter));
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let service = hyper_util::service::TowerToHyperService::new(app.clone());
        let stream = hyper_util::rt::TokioIo::new(stream);
        tokio::spawn(async move {
            let server = hyper::server::conn::http1::Builder::new();
            // A client that disconnects is no error of the server.
            let _ = server.serve_connection(stream, service).await;
        });
    }
}
