//! The progress of a command on stderr: a bar on a terminal, lines otherwise.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

/// The time between two lines of progress within a step.
const INTERVAL: Duration = Duration::from_secs(2);

/// Shows the progress of a command.
pub struct ProgressLine {
    bar: Option<ProgressBar>,
    step: String,
    began: Instant,
    printed: Option<Instant>,
}

impl ProgressLine {
    /// Has no step yet.
    pub fn new() -> ProgressLine {
        ProgressLine::with_bar(io::stderr().is_terminal().then(ProgressBar::no_length))
    }

    fn with_bar(bar: Option<ProgressBar>) -> ProgressLine {
        ProgressLine {
            bar,
            step: String::new(),
            began: Instant::now(),
            printed: None,
        }
    }

    /// Shows how much of a step is done, and how long the rest may take if all of it is known.
    pub fn show(&mut self, step: &str, done: u64, all: Option<u64>) {
        let is_new = self.step != step;
        if is_new {
            (self.step, self.began) = (step.to_owned(), Instant::now());
        }
        if let Some(bar) = &self.bar {
            if is_new {
                bar.reset();
                let template = match all {
                    Some(_) => "{msg}: {wide_bar} {human_pos}/{human_len}, {per_sec}, {eta}",
                    None => "{spinner} {msg}: {human_pos}, {per_sec}",
                };
                if let Ok(style) = ProgressStyle::with_template(template) {
                    bar.set_style(style);
                }
                bar.set_message(step.to_owned());
            }
            if let Some(all) = all {
                bar.set_length(all);
            }
            bar.set_position(done);
            return;
        }
        let is_due = self.printed.is_none_or(|at| at.elapsed() >= INTERVAL);
        if is_new || is_due {
            self.printed = Some(Instant::now());
            let elapsed = self.began.elapsed();
            eprintln!("{}", line(step, (done, all), elapsed));
        }
    }

    /// Removes the bar.
    pub fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

/// A line of progress.
fn line(step: &str, (done, all): (u64, Option<u64>), elapsed: Duration) -> String {
    match all {
        None => format!("{step}: {done}"),
        Some(all) if done == 0 || done >= all => format!("{step}: {done} of {all}"),
        Some(all) => {
            let left = elapsed.mul_f64((all - done) as f64 / done as f64);
            format!(
                "{step}: {done} of {all}, about {} s left",
                left.as_secs() + 1
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use indicatif::{ProgressDrawTarget, TermLike};
    use std::sync::{Arc, Mutex};

    #[test]
    fn lines_estimate_the_time_that_is_left() {
        let elapsed = Duration::from_secs(10);
        assert_eq!(line("s", (5, None), elapsed), "s: 5");
        assert_eq!(line("s", (0, Some(9)), elapsed), "s: 0 of 9");
        let expected = "s: 250 of 1000, about 31 s left";
        assert_eq!(line("s", (250, Some(1000)), elapsed), expected);
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
        let mut progress = ProgressLine::with_bar(Some(bar.clone()));
        progress.show("comparing", 1_500, None);
        bar.force_draw();
        let written = terminal.written();
        assert!(written.contains("comparing: 1,500, "), "{written}");
        progress.show("waiting", 40, Some(2_000));
        bar.force_draw();
        let written = terminal.written();
        assert!(written.contains("waiting: "), "{written}");
        assert!(written.contains(" 40/2,000, "), "{written}");
        progress.finish();
        let written = terminal.written();
        assert!(written.ends_with("[cleared]"), "{written}");
    }
}
