//! The progress of a command on stderr: one line that is rewritten on a terminal, a plain line every few seconds otherwise, JSON with `--json`.

use countd::domain::progress::{Progress, Update};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::io::{self, IsTerminal};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The time between two lines of progress within a step.
const INTERVAL: Duration = Duration::from_secs(2);

/// Shows the progress of a command until it is dropped.
pub struct ProgressLine {
    json: bool,
    /// `None` if stderr is not a terminal, or the output is JSON.
    bar: Option<ProgressBar>,
    steps: Mutex<Steps>,
}

/// The steps so far.
#[derive(Default)]
struct Steps {
    /// The current step.
    current: String,
    began: HashMap<String, Began>,
    printed: Option<Instant>,
}

/// The first update of a step.
#[derive(Clone, Copy)]
struct Began {
    at: Instant,
    /// What was done before, for example by an earlier run.
    done: u64,
    /// Whether a line says that all of it is done.
    is_complete: bool,
}

/// What an update means after those before it.
struct Change {
    began: Began,
    /// Whether the update before was one of another step.
    is_other_step: bool,
    /// Whether a line is to be printed.
    is_due: bool,
}

impl ProgressLine {
    /// Has no step yet.
    pub fn new(json: bool) -> ProgressLine {
        let is_rewritten = !json && io::stderr().is_terminal();
        ProgressLine::with_bar(json, is_rewritten.then(ProgressBar::no_length))
    }

    fn with_bar(json: bool, bar: Option<ProgressBar>) -> ProgressLine {
        ProgressLine {
            json,
            bar,
            steps: Mutex::default(),
        }
    }

    fn steps(&self) -> MutexGuard<'_, Steps> {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the line.
    pub fn finish(self) {}
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Progress for ProgressLine {
    fn update(&self, update: &Update<'_>) {
        let change = self.steps().take(update);
        if let Some(bar) = &self.bar {
            rewrite(bar, update, change.is_other_step);
        } else if change.is_due {
            let times = Times::of(&change.began, update);
            match self.json {
                true => eprintln!("{}", object(update, &times)),
                false => eprintln!("{}", line(update, &times)),
            }
        }
    }

    fn note(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("{text}")),
            None if self.json => eprintln!("{}", json!({ "note": text })),
            None => eprintln!("{text}"),
        }
    }
}

impl Steps {
    /// A line is due when the step changes, when it is complete, and otherwise in an interval.
    fn take(&mut self, update: &Update<'_>) -> Change {
        let is_other_step = self.current != update.step;
        if is_other_step {
            update.step.clone_into(&mut self.current);
        }
        // A step with a total continues after others; one without begins again.
        if is_other_step && update.total.is_none() {
            self.began.remove(update.step);
        }
        let began = self.began.entry(update.step.to_owned()).or_insert(Began {
            at: Instant::now(),
            done: update.done.unwrap_or(0),
            is_complete: false,
        });
        let is_complete =
            matches!((update.done, update.total), (Some(done), Some(total)) if done >= total);
        let is_completed = is_complete && !began.is_complete;
        began.is_complete = is_complete;
        let is_old = |at: Instant| at.elapsed() >= INTERVAL;
        let is_due = is_other_step || is_completed || self.printed.is_none_or(is_old);
        if is_due {
            self.printed = Some(Instant::now());
        }
        Change {
            began: *began,
            is_other_step,
            is_due,
        }
    }
}

/// How long a step runs, and how long it may take.
struct Times {
    elapsed: Duration,
    /// About; `None` if it is not known.
    left: Option<Duration>,
}

impl Times {
    fn of(began: &Began, update: &Update<'_>) -> Times {
        Times::after(began.at.elapsed(), began.done, update)
    }

    /// `before` was done when the step began.
    fn after(elapsed: Duration, before: u64, update: &Update<'_>) -> Times {
        let left = match (update.done, update.total) {
            (Some(done), Some(total)) if done > before && done < total => {
                let ratio = (total - done) as f64 / (done - before) as f64;
                Duration::try_from_secs_f64(elapsed.as_secs_f64() * ratio).ok()
            }
            _ => None,
        };
        Times { elapsed, left }
    }
}

/// Shows an update on a terminal.
fn rewrite(bar: &ProgressBar, update: &Update<'_>, is_other_step: bool) {
    if is_other_step {
        bar.reset();
        let template = match (update.done, update.total) {
            (Some(_), Some(_)) => {
                "{prefix}: {wide_bar} {human_pos}/{human_len} {msg}, {per_sec}, {eta}"
            }
            (Some(_), None) => "{spinner} {prefix}: {human_pos} {msg}, {per_sec}",
            (None, _) => "{spinner} {prefix} {msg}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_prefix(update.step.to_owned());
    }
    let mut message = update.unit.to_owned();
    for (name, count) in update.counts {
        message.push_str(&format!(", {count} {name}"));
    }
    bar.set_message(message);
    if let Some(total) = update.total {
        bar.set_length(total);
    }
    bar.set_position(update.done.unwrap_or(0));
}

/// A line of progress.
fn line(update: &Update<'_>, times: &Times) -> String {
    let Update {
        step, unit, counts, ..
    } = update;
    let mut parts = Vec::new();
    match (update.done, update.total) {
        (None, _) => {}
        (Some(done), None) => parts.push(format!("{done} {unit}")),
        (Some(done), Some(total)) => parts.push(format!("{done} of {total} {unit}")),
    }
    parts.extend(counts.iter().map(|(name, count)| format!("{count} {name}")));
    let left = times.left.map(|left| left.as_secs() + 1);
    parts.extend(left.map(|left| format!("about {left} s left")));
    match parts.is_empty() {
        true => (*step).to_owned(),
        false => format!("{step}: {}", parts.join(", ")),
    }
}

/// Progress as JSON.
fn object(update: &Update<'_>, times: &Times) -> Value {
    let mut fields = Map::new();
    fields.insert("step".to_owned(), update.step.into());
    if let Some(done) = update.done {
        fields.insert("done".to_owned(), done.into());
        fields.insert("unit".to_owned(), update.unit.into());
    }
    if let Some(total) = update.total {
        fields.insert("total".to_owned(), total.into());
    }
    for (name, count) in update.counts {
        fields.insert((*name).to_owned(), (*count).into());
    }
    fields.insert("seconds".to_owned(), times.elapsed.as_secs().into());
    if let Some(left) = times.left {
        fields.insert("seconds_left".to_owned(), (left.as_secs() + 1).into());
    }
    json!({ "progress": fields })
}

#[cfg(test)]
mod tests {
    use super::*;
    use indicatif::{ProgressDrawTarget, TermLike};
    use std::sync::{Arc, Mutex};

    #[test]
    fn lines_estimate_the_time_that_is_left() {
        let line = |update: &Update<'_>, before| {
            line(
                update,
                &Times::after(Duration::from_secs(10), before, update),
            )
        };
        assert_eq!(line(&Update::waiting("grace period"), 0), "grace period");
        assert_eq!(line(&Update::new("s", 5, "keys"), 0), "s: 5 keys");
        let none = Update::new("s", 0, "keys").of(9);
        assert_eq!(line(&none, 0), "s: 0 of 9 keys");
        let quarter = Update::new("s", 250, "bytes").of(1000);
        let expected = "s: 250 of 1000 bytes, about 31 s left";
        assert_eq!(line(&quarter, 0), expected);
        let counts = [("records", 7)];
        let continued = quarter.with(&counts);
        let expected = "s: 250 of 1000 bytes, 7 records, about 151 s left";
        assert_eq!(line(&continued, 200), expected);
        let all = Update::new("s", 9, "keys").of(9);
        assert_eq!(line(&all, 0), "s: 9 of 9 keys");
    }

    #[test]
    fn json_has_the_step_its_counts_and_times() {
        let counts = [("moved", 7)];
        let update = Update::new("moving", 250, "objects").of(1000).with(&counts);
        let times = Times::after(Duration::from_secs(10), 0, &update);
        let expected = json!({"progress": {
            "step": "moving", "done": 250, "total": 1000, "unit": "objects", "moved": 7, "seconds": 10, "seconds_left": 31
        }});
        assert_eq!(object(&update, &times), expected);
        let update = Update::waiting("grace period");
        let times = Times::after(Duration::from_secs(3), 0, &update);
        let expected = json!({"progress": {"step": "grace period", "seconds": 3}});
        assert_eq!(object(&update, &times), expected);
    }

    #[test]
    fn a_line_is_due_for_a_new_step_and_for_its_end() {
        let mut steps = Steps::default();
        let mut is_due = |update: Update<'_>| steps.take(&update).is_due;
        assert!(is_due(Update::new("comparing", 0, "keys").of(9)));
        assert!(!is_due(Update::new("comparing", 5, "keys").of(9)));
        assert!(is_due(Update::waiting("waiting")));
        assert!(!is_due(Update::waiting("waiting")));
        assert!(is_due(Update::new("comparing", 8, "keys").of(9)));
        assert!(is_due(Update::new("comparing", 9, "keys").of(9)));
        assert!(!is_due(Update::new("comparing", 9, "keys").of(9)));
    }

    /// A terminal of 80 columns that records what is written to it.
    #[derive(Clone, Debug, Default)]
    struct Terminal(Arc<Mutex<String>>);

    impl Terminal {
        fn written(&self) -> String {
            self.0.lock().expect("a terminal").clone()
        }

        fn write(&self, text: &str) -> io::Result<()> {
            self.0.lock().expect("a terminal").push_str(text);
            Ok(())
        }
    }

    impl TermLike for Terminal {
        fn width(&self) -> u16 {
            80
        }

        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn write_line(&self, line: &str) -> io::Result<()> {
            self.write(&format!("{line}\n"))
        }

        fn write_str(&self, text: &str) -> io::Result<()> {
            self.write(text)
        }

        fn clear_line(&self) -> io::Result<()> {
            self.write("[cleared]")
        }

        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_bar_shows_each_step_and_is_removed_at_the_end() {
        let terminal = Terminal::default();
        let target = ProgressDrawTarget::term_like_with_hz(Box::new(terminal.clone()), u8::MAX);
        let bar = ProgressBar::with_draw_target(None, target);
        let progress = ProgressLine::with_bar(false, Some(bar.clone()));
        progress.update(&Update::new("comparing", 1_500, "keys"));
        bar.force_draw();
        let written = terminal.written();
        assert!(written.contains("comparing: 1,500 keys, "), "{written}");
        progress.update(&Update::new("applying", 40, "entries").of(2_000));
        bar.force_draw();
        let written = terminal.written();
        assert!(written.contains("applying: "), "{written}");
        assert!(written.contains(" 40/2,000 entries, "), "{written}");
        progress.finish();
        let written = terminal.written();
        assert!(written.ends_with("[cleared]"), "{written}");
    }
}
