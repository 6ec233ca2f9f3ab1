//! Draws the screen.

use super::screen::Screen;
use super::tables::{Cell, TABLES, counted, per_second};
use super::view::{CorrectionsView, LogView, ServiceView, View};
use indicatif::HumanBytes;
use ratatui::buffer::Buffer;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Borders, Paragraph, Row, Table as TableWidget, Widget};

/// The number of corrections that are shown.
const CORRECTIONS: usize = 3;
/// The number of problems that are shown.
const PROBLEMS: usize = 3;
/// The height of the nodes at most, with the border and the heading.
const MAX_NODES: usize = 10;
/// The width of the text of `--once`.
const TEXT_WIDTH: u16 = 110;
/// The number of rows of a table in the text of `--once`, at most.
const TEXT_ROWS: usize = 20;

/// Draws the screen into an area. `title` names the sources.
pub fn draw(screen: &Screen, title: &str, area: Rect, buffer: &mut Buffer) {
    let view = &screen.view;
    let figures = figures(view);
    let problems: Vec<Line<'_>> = (view.problems.iter().take(PROBLEMS))
        .map(|problem| Line::styled(format!("! {problem}"), Style::new().fg(Color::Red)))
        .collect();
    let corrections = corrections(view);
    let nodes = (view.nodes.len().max(1) + 3).min(MAX_NODES);
    let heights = [
        Constraint::Length(1),
        Constraint::Length(length(figures.len())),
        Constraint::Length(length(problems.len())),
        Constraint::Min(4),
        Constraint::Length(length(nodes)),
        Constraint::Length(length(corrections.len() + 2)),
        Constraint::Length(1),
    ];
    let [head, middle, errors, tables, nodes, last, keys] = Layout::vertical(heights).areas(area);
    let pause = if screen.is_paused { "  PAUSED" } else { "" };
    let bold = Style::new().add_modifier(Modifier::BOLD);
    Line::styled(format!("countd top  {title}{pause}"), bold).render(head, buffer);
    Paragraph::new(figures).render(middle, buffer);
    Paragraph::new(problems).render(errors, buffer);
    let halves = [Constraint::Percentage(40), Constraint::Percentage(60)];
    let [left, right] = Layout::horizontal(halves).areas(tables);
    for (table, area) in [left, right, nodes].into_iter().enumerate() {
        draw_table(screen, table, area, buffer);
    }
    let block = Block::new().borders(Borders::ALL).title("Corrections");
    Paragraph::new(corrections)
        .block(block)
        .render(last, buffer);
    Line::from("q quit  p pause  Tab table  <-/-> column  up/down order").render(keys, buffer);
}

/// The screen as text, with as many lines as it needs.
pub fn text(screen: &Screen, title: &str) -> String {
    let rows = |table: usize| TABLES[table].rows(&screen.view).len().clamp(1, TEXT_ROWS);
    let height = 1 + 5 + PROBLEMS + rows(0).max(rows(1)) + 3 + MAX_NODES + CORRECTIONS + 3;
    let area = Rect::new(0, 0, TEXT_WIDTH, length(height));
    let mut buffer = Buffer::empty(area);
    draw(screen, title, area, &mut buffer);
    let lines = buffer.content().chunks(usize::from(TEXT_WIDTH));
    let lines = lines.map(|cells| {
        let line: String = cells.iter().map(|cell| cell.symbol()).collect();
        format!("{}\n", line.trim_end())
    });
    let mut lines: Vec<String> = lines.collect();
    // The keys have no use there.
    lines.pop();
    lines.concat()
}

fn length(count: usize) -> u16 {
    u16::try_from(count).unwrap_or(u16::MAX)
}

/// The figures of the logs, the processes and the countd.
fn figures(view: &View) -> Vec<Line<'static>> {
    let mut lines = match &view.log {
        Some(log) => of_log(log),
        None => vec![Line::from("Log       unknown")],
    };
    lines.push(match &view.processes {
        Some(members) if members.consumers == 0 => warning(format!(
            "Processes no consumer: nothing counts; {} connections",
            members.connections
        )),
        Some(members) => Line::from(format!(
            "Processes {} consumers, {} connections",
            members.consumers, members.connections
        )),
        None => Line::from("Processes unknown"),
    });
    if let Some(service) = &view.service {
        lines.extend(of_service(service));
    }
    lines
}

fn of_log(log: &LogView) -> Vec<Line<'static>> {
    let damage = format!(
        "Damage    {} damaged partitions, {} dead letters, outbox {}",
        counted(log.damaged_partitions as f64),
        counted(log.dead_letters as f64),
        counted(log.outbox as f64)
    );
    let is_damaged = log.damaged_partitions > 0 || log.dead_letters > 0;
    vec![
        Line::from(format!(
            "Log       {}/s appended, {}/s counted, lag {}, {} counted in all",
            per_second(log.appended_per_second),
            per_second(log.counted_per_second),
            counted(log.lag as f64),
            counted(log.counted as f64)
        )),
        match is_damaged {
            true => warning(damage),
            false => Line::from(damage),
        },
    ]
}

fn of_service(service: &ServiceView) -> [Line<'static>; 2] {
    let memory = service.memory_bytes.map_or("unknown".to_owned(), |bytes| {
        HumanBytes(bytes as u64).to_string()
    });
    let lag = service.lag_seconds;
    let lag = lag.map_or("unknown".to_owned(), |seconds| format!("{seconds:.1} s"));
    [
        Line::from(format!(
            "countd    {}/s requests, {}/s failed, {}/s committed, oldest event {lag}, memory {memory}",
            per_second(service.requests_per_second),
            per_second(service.failures_per_second),
            per_second(service.applied_per_second),
        )),
        Line::from(format!(
            "Drift     {}/s compared, {} of {} differed, {} corrected, {} unconverged",
            per_second(service.compared_per_second),
            counted(service.differing),
            counted(service.compared),
            counted(service.corrections),
            counted(service.unconverged)
        )),
    ]
}

fn warning(text: String) -> Line<'static> {
    Line::styled(text, Style::new().fg(Color::Yellow))
}

/// The newest corrections.
fn corrections(view: &View) -> Vec<Line<'static>> {
    let Some(CorrectionsView { last_hour, newest }) = &view.corrections else {
        return vec![Line::from("unknown")];
    };
    let mut lines = vec![Line::from(format!("{last_hour} in the last hour"))];
    lines.extend(newest.iter().take(CORRECTIONS).map(|one| {
        let age = view.time.saturating_sub(one.ms) / 1000;
        Line::from(format!(
            "{age} s ago  {} {} {}: {} -> {} ({})",
            one.etype, one.eid, one.metric, one.before, one.after, one.source
        ))
    }));
    lines
}

fn draw_table(screen: &Screen, index: usize, area: Rect, buffer: &mut Buffer) {
    let (table, order) = (TABLES[index], screen.order(index));
    let is_focused = screen.focus == index;
    let style = match is_focused {
        true => Style::new().add_modifier(Modifier::BOLD),
        false => Style::new(),
    };
    let block = Block::new().borders(Borders::ALL).title(table.title());
    let block = block.border_style(style);
    let rows = screen.rows(index);
    if rows.is_empty() {
        let paragraph = Paragraph::new(table.empty()).block(block);
        return paragraph.render(area, buffer);
    }
    let columns = table.columns();
    // Numbers stand at the right.
    let aligned = |column: usize, text: String| match column {
        0 => Line::from(text),
        _ => Line::from(text).alignment(Alignment::Right),
    };
    let heading = columns.iter().enumerate().map(|(column, (name, _))| {
        let arrow = match (column == order.column, order.is_descending) {
            (true, true) => " v",
            (true, false) => " ^",
            _ => "",
        };
        aligned(column, format!("{name}{arrow}"))
    });
    let heading = Row::new(heading).style(Style::new().add_modifier(Modifier::UNDERLINED));
    let rows = rows.iter().map(|row| {
        let cells = row.iter().map(Cell::text).enumerate();
        Row::new(cells.map(|(column, text)| aligned(column, text)))
    });
    let widths = columns
        .iter()
        .enumerate()
        .map(|(column, (_, width))| match column {
            0 => Constraint::Min(*width),
            _ => Constraint::Length(*width),
        });
    let widget = TableWidget::new(rows, widths).header(heading).block(block);
    Widget::render(widget, area, buffer);
}

#[cfg(test)]
mod tests {
    use super::super::screen::testing::view;
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

    /// The lines of a terminal with this size.
    fn drawn(screen: &Screen, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        let frame = terminal.draw(|frame| {
            let area = frame.area();
            draw(screen, "redis://127.0.0.1:6379/", area, frame.buffer_mut());
        });
        let buffer = frame.expect("drawn").buffer.clone();
        let lines = buffer.content().chunks(usize::from(width));
        lines
            .map(|cells| cells.iter().map(|cell| cell.symbol()).collect::<String>())
            .map(|line| line.trim_end().to_owned())
            .collect()
    }

    #[track_caller]
    fn assert_line(lines: &[String], parts: &[&str]) {
        let has_all = |line: &&String| parts.iter().all(|part| line.contains(part));
        assert!(
            lines.iter().any(|line| has_all(&line)),
            "{parts:?}:\n{}",
            lines.join("\n")
        );
    }

    #[test]
    fn the_screen_shows_every_part() {
        let lines = drawn(&Screen::new(view()), 100, 32);
        assert_eq!(lines[0], "countd top  redis://127.0.0.1:6379/");
        assert_eq!(
            lines[1],
            "Log       1,234.5/s appended, 1,200.0/s counted, lag 40, 9,876,543 counted in all"
        );
        assert_eq!(
            lines[2],
            "Damage    1 damaged partitions, 3 dead letters, outbox 0"
        );
        assert_eq!(lines[3], "Processes 2 consumers, 4 connections");
        assert_line(
            &lines,
            &["countd    800.0/s requests, 0.5/s failed", "64.00 MiB"],
        );
        assert_line(
            &lines,
            &["Drift     100.0/s compared, 2 of 70,000 differed, 2 corrected"],
        );
        assert_line(&lines, &["! 127.0.0.1:6380: refused"]);
        assert_line(&lines, &["Lag by partition", "Hot entities"]);
        assert_line(
            &lines,
            &["Partition", "Lag v", "Growth/s", "Entity", "Reads/s v"],
        );
        assert_line(&lines, &["900", "-5.0"]);
        assert_line(&lines, &["note 114", "50.0", "0.5"]);
        assert_line(
            &lines,
            &[
                "127.0.0.1:6379",
                "3.00 MiB",
                "none",
                "5,000.0",
                "25 %",
                "4,321",
            ],
        );
        assert_line(&lines, &["127.0.0.1:6380 (down)"]);
        assert_line(&lines, &["60 s ago  note 114 like: 5 -> 6 (reconcile)"]);
        assert!(lines[31].starts_with("q quit"), "{}", lines[31]);
    }

    #[test]
    fn the_order_is_marked_and_changes_the_rows() {
        let mut screen = Screen::new(view());
        let line_of = |lines: &[String], text: &str| {
            lines
                .iter()
                .position(|line| line.contains(text))
                .expect("a line")
        };
        let lines = drawn(&screen, 100, 32);
        assert!(line_of(&lines, "note 114") < line_of(&lines, "note 9 "));
        for code in [KeyCode::Tab, KeyCode::Right] {
            screen.press(KeyEvent::new(code, KeyModifiers::NONE));
        }
        let lines = drawn(&screen, 100, 32);
        assert_line(&lines, &["Writes/s v"]);
        assert!(line_of(&lines, "note 114") > line_of(&lines, "note 9 "));
    }

    #[test]
    fn missing_parts_and_small_terminals_are_drawn() {
        let mut screen = Screen::new(View::default());
        screen.is_paused = true;
        let lines = drawn(&screen, 80, 24);
        assert!(lines[0].ends_with("PAUSED"), "{}", lines[0]);
        assert_line(&lines, &["Log       unknown"]);
        assert_line(&lines, &["every event is counted"]);
        assert_line(&lines, &["no node is known"]);
        for (width, height) in [(1, 1), (20, 5), (40, 10)] {
            let lines = drawn(&Screen::new(view()), width, height);
            assert_eq!(lines.len(), usize::from(height));
        }
    }

    #[test]
    fn the_text_has_every_part_without_keys() {
        let text = text(&Screen::new(view()), "127.0.0.1:6379");
        for part in ["lag 40", "note 114", "900", "127.0.0.1:6379", "reconcile"] {
            assert!(text.contains(part), "{part}:\n{text}");
        }
        assert!(!text.contains("quit"), "{text}");
    }
}
