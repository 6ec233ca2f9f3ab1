//! The state of the live view: the view, the order of its tables, and what keys do.

use super::tables::{Row, TABLES, Table};
use super::view::View;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// The order of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// The index of the column.
    pub column: usize,
    pub is_descending: bool,
}

/// What a key does beside changing the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Draw it again.
    Draw,
    /// End the command.
    Quit,
}

/// What is on the screen.
#[derive(Clone, Debug)]
pub struct Screen {
    /// What was read; that of the time of the pause while it is paused.
    pub view: View,
    pub is_paused: bool,
    /// The index of the table whose order keys change.
    pub focus: usize,
    orders: [Order; TABLES.len()],
}

impl Screen {
    /// Orders each table by its most important column, the greatest value first.
    pub fn new(view: View) -> Screen {
        Screen {
            view,
            is_paused: false,
            focus: 0,
            orders: TABLES.map(|table| Order {
                column: table.first_order(),
                is_descending: true,
            }),
        }
    }

    /// The order of a table.
    pub fn order(&self, table: usize) -> Order {
        self.orders[table]
    }

    /// The rows of a table, in its order.
    pub fn rows(&self, table: usize) -> Vec<Row> {
        let Order {
            column,
            is_descending,
        } = self.orders[table];
        let mut rows = TABLES[table].rows(&self.view);
        rows.sort_by(|a, b| {
            let by_column = a[column].compare(&b[column]);
            match is_descending {
                true => by_column.reverse(),
                false => by_column,
            }
        });
        rows
    }

    /// Shows a newer view, unless it is paused.
    pub fn update(&mut self, view: View) {
        if !self.is_paused {
            self.view = view;
        }
    }

    /// Handles a key: `q`, Escape and Ctrl-C quit; `p` and the space bar pause; Tab chooses a table, left and right the column that orders it, up and
    /// down the direction.
    pub fn press(&mut self, key: KeyEvent) -> Option<Action> {
        if key.kind == KeyEventKind::Release {
            return None;
        }
        let columns = self.table().columns().len();
        let order = &mut self.orders[self.focus];
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                return Some(Action::Quit);
            }
            KeyCode::Char('q') | KeyCode::Esc => return Some(Action::Quit),
            KeyCode::Char('p' | ' ') => self.is_paused = !self.is_paused,
            KeyCode::Tab => self.focus = (self.focus + 1) % TABLES.len(),
            KeyCode::BackTab => self.focus = (self.focus + TABLES.len() - 1) % TABLES.len(),
            KeyCode::Right => order.column = (order.column + 1) % columns,
            KeyCode::Left => order.column = (order.column + columns - 1) % columns,
            KeyCode::Down => order.is_descending = true,
            KeyCode::Up => order.is_descending = false,
            _ => return None,
        }
        Some(Action::Draw)
    }

    fn table(&self) -> Table {
        TABLES[self.focus]
    }
}

#[cfg(test)]
pub mod testing {
    use super::super::sample::{Correction, Members};
    use super::super::service::HotRow;
    use super::super::view::{CorrectionsView, LogView, NodeView, PartitionView, ServiceView};
    use super::*;

    fn hot(eid: &str, reads: f64, writes: f64) -> HotRow {
        HotRow {
            etype: "note".to_owned(),
            eid: eid.to_owned(),
            reads,
            writes,
        }
    }

    /// A view with something in each part.
    pub fn view() -> View {
        View {
            time: 1_000_000,
            seconds: Some(2.0),
            log: Some(LogView {
                appended_per_second: Some(1234.5),
                counted_per_second: Some(1200.0),
                counted: 9_876_543,
                lag: 40,
                damaged_partitions: 1,
                outbox: 0,
                dead_letters: 3,
            }),
            partitions: [(7, 30, 2.5), (900, 10, -5.0)]
                .map(|(partition, lag, growth)| PartitionView {
                    partition,
                    lag,
                    growth_per_second: Some(growth),
                })
                .to_vec(),
            processes: Some(Members {
                consumers: 2,
                connections: 4,
            }),
            hot: vec![hot("114", 50.0, 0.5), hot("9", 10.0, 20.0)],
            corrections: Some(CorrectionsView {
                last_hour: 1,
                newest: vec![Correction {
                    ms: 940_000,
                    source: "reconcile".to_owned(),
                    etype: "note".to_owned(),
                    eid: "114".to_owned(),
                    metric: "like".to_owned(),
                    before: "5".to_owned(),
                    after: "6".to_owned(),
                }],
            }),
            nodes: vec![
                NodeView {
                    node: "127.0.0.1:6379".to_owned(),
                    up: true,
                    memory_bytes: 3.0 * 1024.0 * 1024.0,
                    memory_max_bytes: 0.0,
                    commands_per_second: Some(5000.0),
                    main_thread: Some(0.25),
                    clients: 12.0,
                    keys: 4321.0,
                },
                NodeView {
                    node: "127.0.0.1:6380".to_owned(),
                    up: false,
                    memory_bytes: 0.0,
                    memory_max_bytes: 0.0,
                    commands_per_second: None,
                    main_thread: None,
                    clients: 0.0,
                    keys: 0.0,
                },
            ],
            service: Some(ServiceView {
                requests_per_second: Some(800.0),
                failures_per_second: Some(0.5),
                appended_per_second: Some(1234.5),
                applied_per_second: Some(600.0),
                compared_per_second: Some(100.0),
                corrections: 2.0,
                compared: 70_000.0,
                differing: 2.0,
                unconverged: 0.0,
                lag_seconds: Some(0.25),
                memory_bytes: Some(64.0 * 1024.0 * 1024.0),
            }),
            problems: vec!["127.0.0.1:6380: refused".to_owned()],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(screen: &mut Screen, code: KeyCode) -> Option<Action> {
        screen.press(KeyEvent::new(code, KeyModifiers::NONE))
    }

    fn first_cells(screen: &Screen, table: usize) -> Vec<String> {
        let rows = screen.rows(table);
        rows.iter().map(|row| row[0].text()).collect()
    }

    #[test]
    fn keys_choose_the_order_of_the_table_in_focus() {
        let mut screen = Screen::new(testing::view());
        assert_eq!(first_cells(&screen, 0), ["7", "900"]);
        // The growth is the column after the lag.
        assert_eq!(press(&mut screen, KeyCode::Right), Some(Action::Draw));
        press(&mut screen, KeyCode::Up);
        assert_eq!(first_cells(&screen, 0), ["900", "7"]);
        // Only the table in focus changes.
        assert_eq!(first_cells(&screen, 1), ["note 114", "note 9"]);
        press(&mut screen, KeyCode::Tab);
        press(&mut screen, KeyCode::Right);
        assert_eq!(first_cells(&screen, 1), ["note 9", "note 114"]);
        press(&mut screen, KeyCode::Left);
        press(&mut screen, KeyCode::Left);
        assert_eq!(screen.order(1).column, 0);
        press(&mut screen, KeyCode::BackTab);
        press(&mut screen, KeyCode::BackTab);
        assert_eq!(screen.focus, TABLES.len() - 1);
        press(&mut screen, KeyCode::Tab);
        assert_eq!(screen.focus, 0);
    }

    #[test]
    fn a_paused_screen_keeps_its_view() {
        let mut screen = Screen::new(View::default());
        press(&mut screen, KeyCode::Char('p'));
        screen.update(testing::view());
        assert_eq!(screen.view, View::default());
        press(&mut screen, KeyCode::Char(' '));
        screen.update(testing::view());
        assert_eq!(screen.view, testing::view());
    }

    #[test]
    fn quitting_keys_quit_and_unknown_keys_do_nothing() {
        let mut screen = Screen::new(View::default());
        for code in [KeyCode::Char('q'), KeyCode::Esc] {
            assert_eq!(press(&mut screen, code), Some(Action::Quit));
        }
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(screen.press(interrupt), Some(Action::Quit));
        for code in [KeyCode::Char('c'), KeyCode::Enter] {
            assert_eq!(press(&mut screen, code), None);
        }
        let mut released = KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE);
        released.kind = KeyEventKind::Release;
        assert_eq!(screen.press(released), None);
    }
}
