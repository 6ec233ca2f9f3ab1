//! The sessions of browsers that use the console. They are in the memory of the process only, so they end with it.

use crate::domain::error::{Problem, StoreError};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The maximum number of sessions. Beyond it, the least recently used one ends.
const MAX_SESSIONS: usize = 1_000;
/// The time after the last request after which a session ends.
const IDLE: Duration = Duration::from_secs(30 * 60);
/// The time after which a session ends.
const LIFETIME: Duration = Duration::from_secs(8 * 60 * 60);
/// The number of random bytes of an ID and of a form token.
const SECRET_BYTES: usize = 32;

/// A session.
#[derive(Clone)]
pub struct Session {
    /// The secret of its cookie.
    pub id: Arc<str>,
    /// The secret of its forms. A request that changes something must have it.
    pub form_token: Arc<str>,
    /// The name of the token of the login, for the log; `-` without tokens.
    pub name: Arc<str>,
    /// The secret of this token, with which the session ends; empty without tokens.
    pub token: Arc<str>,
}

struct Entry {
    session: Session,
    begun: Instant,
    used: Instant,
}

impl Entry {
    fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.used) >= IDLE
            || now.saturating_duration_since(self.begun) >= LIFETIME
    }
}

/// The sessions of a process.
#[derive(Default)]
pub struct Sessions(Mutex<HashMap<Arc<str>, Entry>>);

impl Sessions {
    /// Begins a session.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn begin(&self, name: &str, token: &str, now: Instant) -> Result<Session, Problem> {
        let session = Session {
            id: secret()?,
            form_token: secret()?,
            name: name.into(),
            token: token.into(),
        };
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() >= MAX_SESSIONS {
            entries.retain(|_, entry| !entry.is_over(now));
        }
        if entries.len() >= MAX_SESSIONS {
            let oldest = entries.values().min_by_key(|entry| entry.used);
            if let Some(id) = oldest.map(|entry| Arc::clone(&entry.session.id)) {
                entries.remove(&id);
            }
        }
        let entry = Entry {
            session: session.clone(),
            begun: now,
            used: now,
        };
        entries.insert(Arc::clone(&session.id), entry);
        Ok(session)
    }

    /// The session with this ID, which is used now. `None` if it has ended.
    pub fn find(&self, id: &str, now: Instant) -> Option<Session> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = entries.get_mut(id)?;
        if entry.is_over(now) {
            entries.remove(id);
            return None;
        }
        entry.used = now;
        Some(entry.session.clone())
    }

    /// Ends a session.
    pub fn end(&self, id: &str) {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.remove(id);
    }
}

/// A random text, in hexadecimal digits.
fn secret() -> Result<Arc<str>, Problem> {
    let mut bytes = [0; SECRET_BYTES];
    getrandom::fill(&mut bytes)
        .map_err(|error| StoreError::Unexpected(format!("random numbers: {error}")))?;
    let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(digits.concat().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(sessions: &Sessions, now: Instant) -> Session {
        sessions
            .begin("ops", "secret", now)
            .expect("random numbers")
    }

    #[test]
    fn sessions_end_when_they_are_idle_or_old_or_ended() {
        let sessions = Sessions::default();
        let begun = Instant::now();
        let session = begin(&sessions, begun);
        assert_ne!(session.id, session.form_token);
        assert!(sessions.find("another", begun).is_none());
        // Used again and again, it ends by its age.
        let mut now = begun;
        while now + IDLE / 2 < begun + LIFETIME {
            now += IDLE / 2;
            let found = sessions.find(&session.id, now).expect("it goes on");
            assert_eq!(found.form_token, session.form_token);
        }
        assert!(sessions.find(&session.id, begun + LIFETIME).is_none());
        let idle = begin(&sessions, begun);
        assert!(sessions.find(&idle.id, begun + IDLE).is_none());
        let ended = begin(&sessions, begun);
        sessions.end(&ended.id);
        assert!(sessions.find(&ended.id, begun).is_none());
    }

    #[test]
    fn the_least_recently_used_session_ends_first() {
        let sessions = Sessions::default();
        let begun = Instant::now();
        let first = begin(&sessions, begun);
        let second = begin(&sessions, begun + Duration::from_secs(1));
        let later = begun + Duration::from_secs(2);
        assert!(sessions.find(&first.id, later).is_some());
        for _ in 0..MAX_SESSIONS - 1 {
            begin(&sessions, later);
        }
        assert!(sessions.find(&second.id, later).is_none());
        assert!(sessions.find(&first.id, later).is_some());
    }
}
