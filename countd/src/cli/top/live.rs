//! The live view: a terminal in raw mode on its alternate screen, which is left on every way out.

use super::draw::draw;
use super::sample::{Sample, Sources};
use super::screen::{Action, Screen};
use super::view::View;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};
use std::io;
use std::thread;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// How long the thread that reads keys waits before it looks whether the view has ended.
const KEY_POLL: Duration = Duration::from_millis(100);

/// A terminal that is put back into its state when it is dropped. The hook of `ratatui` does so before a panic is printed.
struct Terminal(DefaultTerminal);

impl Terminal {
    fn open() -> io::Result<Terminal> {
        ratatui::try_init().map(Terminal)
    }

    fn draw(&mut self, screen: &Screen, title: &str) -> io::Result<()> {
        let drawn = self.0.draw(|frame| {
            let area = frame.area();
            draw(screen, title, area, frame.buffer_mut());
        });
        drawn.map(drop)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Shows the view until a key or a signal ends it.
///
/// # Errors
/// The terminal cannot be used.
pub async fn run(sources: Sources, interval: Duration, title: String) -> io::Result<()> {
    // Before the terminal changes, so that no signal leaves it changed.
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut terminal = Terminal::open()?;
    let mut keys = read_keys();
    let mut samples = take_samples(sources, interval);
    let mut screen = Screen::new(View::default());
    let mut before: Option<Sample> = None;
    loop {
        terminal.draw(&screen, &title)?;
        tokio::select! {
            event = keys.recv() => match event {
                Some(Ok(Event::Key(key))) => if screen.press(key) == Some(Action::Quit) {
                    return Ok(());
                },
                // A new size, for example.
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error),
                None => return Err(io::Error::other("the terminal has ended")),
            },
            sample = samples.recv() => {
                let sample = sample.ok_or_else(|| io::Error::other("nothing is read any more"))?;
                screen.update(View::of(before.as_ref(), &sample));
                before = Some(sample);
            }
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
            _ = hangup.recv() => return Ok(()),
        }
    }
}

/// Reads the events of the terminal in a thread, which ends soon after the receiver is dropped.
fn read_keys() -> mpsc::Receiver<io::Result<Event>> {
    let (keys, receiver) = mpsc::channel(16);
    thread::spawn(move || {
        while !keys.is_closed() {
            let event = match event::poll(KEY_POLL) {
                Ok(false) => continue,
                Ok(true) => event::read(),
                Err(error) => Err(error),
            };
            let is_last = event.is_err();
            if keys.blocking_send(event).is_err() || is_last {
                return;
            }
        }
    });
    receiver
}

/// Takes a sample in each interval, in a task that ends with the receiver.
fn take_samples(sources: Sources, interval: Duration) -> mpsc::Receiver<Sample> {
    let (samples, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        loop {
            let sample = sources.sample().await;
            if samples.send(sample).await.is_err() {
                return;
            }
            tokio::time::sleep(interval).await;
        }
    });
    receiver
}
