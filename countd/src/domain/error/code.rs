//! The error codes of the API. Each code has one HTTP status, on every route and in every item of a batch.

use serde::Serialize;

/// The code of an error, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The request is malformed.
    Malformed,
    /// The credentials are missing or invalid.
    Unauthorized,
    /// The credentials lack a right.
    Forbidden,
    /// The request is for another user than the credentials.
    UidMismatch,
    /// The path does not exist.
    NoRoute,
    /// The counter of users does not exist.
    UnknownCounter,
    /// The metric does not exist.
    UnknownMetric,
    /// The ranking does not exist.
    UnknownRanking,
    /// The job does not exist, or ended long ago.
    UnknownJob,
    /// The entity type does not exist.
    UnknownType,
    /// The path does not support the method.
    NoMethod,
    /// The body is too long.
    TooLarge,
    /// The request has too many items.
    TooMany,
    /// The path and query are too long.
    UriTooLong,
    /// The content type of the body is not supported.
    UnsupportedMediaType,
    /// The metric has no counts by day.
    NoHistory,
    /// The facts of the metric are not kept for users.
    NoReverse,
    /// The request is not possible for this metric, entity or user.
    Unprocessable,
    /// The entity has another author.
    AuthorMismatch,
    /// The idempotency key was used for another request.
    KeyReused,
    /// A rate limit is exceeded.
    Limited,
    /// The headers are too long or too many.
    HeadersTooLarge,
    /// Stored data is damaged.
    Damaged,
    /// Redis rejected a command.
    Internal,
    /// Too many requests are in progress.
    Busy,
    /// The entity is being merged.
    Merging,
    /// The write was executed, but is not as safe as configured.
    NotAcknowledged,
    /// Partitions have failed.
    NotCounting,
    /// The ranking is being filled for the first time.
    NotFilled,
    /// A schema is missing or unusable.
    Schema,
    /// The process has received SIGTERM.
    Stopping,
    /// The request took too long.
    Timeout,
    /// Redis is unavailable, or Kafka for an event that belongs into the topic.
    Unavailable,
}

impl ErrorCode {
    /// All codes, ordered by status and name.
    pub const ALL: [ErrorCode; 33] = [
        ErrorCode::Malformed,
        ErrorCode::Unauthorized,
        ErrorCode::Forbidden,
        ErrorCode::UidMismatch,
        ErrorCode::NoRoute,
        ErrorCode::UnknownCounter,
        ErrorCode::UnknownJob,
        ErrorCode::UnknownMetric,
        ErrorCode::UnknownRanking,
        ErrorCode::UnknownType,
        ErrorCode::NoMethod,
        ErrorCode::TooLarge,
        ErrorCode::TooMany,
        ErrorCode::UriTooLong,
        ErrorCode::UnsupportedMediaType,
        ErrorCode::AuthorMismatch,
        ErrorCode::KeyReused,
        ErrorCode::NoHistory,
        ErrorCode::NoReverse,
        ErrorCode::Unprocessable,
        ErrorCode::Limited,
        ErrorCode::HeadersTooLarge,
        ErrorCode::Damaged,
        ErrorCode::Internal,
        ErrorCode::Busy,
        ErrorCode::Merging,
        ErrorCode::NotAcknowledged,
        ErrorCode::NotCounting,
        ErrorCode::NotFilled,
        ErrorCode::Schema,
        ErrorCode::Stopping,
        ErrorCode::Timeout,
        ErrorCode::Unavailable,
    ];

    /// The name, the HTTP status and the title.
    const fn row(self) -> (&'static str, u16, &'static str) {
        match self {
            ErrorCode::Malformed => ("malformed", 400, "Malformed request"),
            ErrorCode::Unauthorized => ("unauthorized", 401, "Authentication required"),
            ErrorCode::Forbidden => ("forbidden", 403, "Right missing"),
            ErrorCode::UidMismatch => ("uid_mismatch", 403, "Another user"),
            ErrorCode::NoRoute => ("no_route", 404, "Unknown path"),
            ErrorCode::UnknownCounter => ("unknown_counter", 404, "Unknown counter"),
            ErrorCode::UnknownJob => ("unknown_job", 404, "Unknown job"),
            ErrorCode::UnknownMetric => ("unknown_metric", 404, "Unknown metric"),
            ErrorCode::UnknownRanking => ("unknown_ranking", 404, "Unknown ranking"),
            ErrorCode::UnknownType => ("unknown_type", 404, "Unknown entity type"),
            ErrorCode::NoMethod => ("no_method", 405, "Method not supported"),
            ErrorCode::TooLarge => ("too_large", 413, "Body too long"),
            ErrorCode::TooMany => ("too_many", 413, "Too many items"),
            ErrorCode::UriTooLong => ("uri_too_long", 414, "Path and query too long"),
            ErrorCode::UnsupportedMediaType => {
                ("unsupported_media_type", 415, "Unsupported content type")
            }
            ErrorCode::Unprocessable => ("unprocessable", 422, "Request not possible"),
            ErrorCode::AuthorMismatch => ("author_mismatch", 422, "Another author"),
            ErrorCode::KeyReused => ("key_reused", 422, "Idempotency key reused"),
            ErrorCode::NoHistory => ("no_history", 422, "No counts by day"),
            ErrorCode::NoReverse => ("no_reverse", 422, "Facts not kept for users"),
            ErrorCode::Limited => ("limited", 429, "Rate limit exceeded"),
            ErrorCode::HeadersTooLarge => ("headers_too_large", 431, "Headers too long"),
            ErrorCode::Damaged => ("damaged", 500, "Damaged data"),
            ErrorCode::Internal => ("internal", 500, "Internal error"),
            ErrorCode::Busy => ("busy", 503, "Too many requests in progress"),
            ErrorCode::Merging => ("merging", 503, "Entity is being merged"),
            ErrorCode::NotAcknowledged => ("not_acknowledged", 503, "Write not acknowledged"),
            ErrorCode::NotCounting => ("not_counting", 503, "Events are not counted"),
            ErrorCode::NotFilled => ("not_filled", 503, "Ranking is being filled"),
            ErrorCode::Schema => ("schema", 503, "Schema unusable"),
            ErrorCode::Stopping => ("stopping", 503, "Process is stopping"),
            ErrorCode::Timeout => ("timeout", 503, "Request timed out"),
            ErrorCode::Unavailable => ("unavailable", 503, "Redis or Kafka unavailable"),
        }
    }

    /// The name in responses.
    pub const fn name(self) -> &'static str {
        self.row().0
    }

    /// The HTTP status.
    pub const fn status(self) -> u16 {
        self.row().1
    }

    /// A short description of the kind of error.
    pub const fn title(self) -> &'static str {
        self.row().2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_complete_unique_and_ordered() {
        let rows: Vec<(u16, &str)> = ErrorCode::ALL
            .iter()
            .map(|code| (code.status(), code.name()))
            .collect();
        assert!(rows.is_sorted() && rows.windows(2).all(|pair| pair[0].1 != pair[1].1));
        for code in ErrorCode::ALL {
            assert_eq!(serde_json::json!(code), code.name());
        }
        assert_eq!(ErrorCode::ALL.len(), ErrorCode::Unavailable as usize + 1);
    }
}
