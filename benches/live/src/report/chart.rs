//! Charts: grouped bars, and line charts by set size.

use crate::report::svg::{Anchor, Svg};

/// A chart, stored in its own file.
pub struct Chart {
    /// The file's name, without its extension.
    pub name: String,
    /// The title.
    pub title: String,
    /// The content of the file.
    pub svg: String,
}

/// A group of bars.
pub struct Group {
    /// The heading.
    pub title: String,
    /// From top to bottom.
    pub bars: Vec<Bar>,
}

/// A bar.
pub struct Bar {
    /// What it shows.
    pub label: String,
    /// The value.
    pub value: f64,
    /// The quartiles, drawn as whiskers.
    pub quartiles: Option<(f64, f64)>,
    /// Whether it is CountInt, which is drawn in colour.
    pub ours: bool,
}

/// A panel of curves.
pub struct Panel {
    /// The heading.
    pub title: String,
    /// The points of one curve for each name of the legend; empty if it has none.
    pub curves: Vec<Vec<(f64, f64)>>,
}

const WIDTH: f64 = 860.0;
const MARGIN: f64 = 16.0;

/// Horizontal bars with their values, on one linear scale from 0.
pub fn bars(
    name: &str,
    title: &str,
    unit: &str,
    groups: &[Group],
    format: impl Fn(f64) -> String,
) -> Chart {
    const LABELS: f64 = 236.0;
    const ROW: f64 = 19.0;
    let all = || groups.iter().flat_map(|g| &g.bars);
    let end = |bar: &Bar| {
        bar.quartiles
            .map_or(bar.value, |(_, high)| high.max(bar.value))
    };
    let longest = all().map(end).fold(f64::MIN_POSITIVE, f64::max);
    let room = WIDTH - LABELS - 2.0 * MARGIN - 70.0;
    let x = |value: f64| MARGIN + LABELS + value / longest * room;
    let mut svg = Svg::new(WIDTH);
    svg.text((MARGIN, 26.0), "head", Anchor::Start, title);
    svg.text((WIDTH - MARGIN, 26.0), "small", Anchor::End, unit);
    let mut y = 40.0;
    for group in groups {
        y += 16.0;
        svg.text((MARGIN, y), "small", Anchor::Start, &group.title);
        y += 7.0;
        for bar in &group.bars {
            let middle = y + ROW / 2.0;
            svg.text((x(0.0) - 8.0, middle + 4.0), "", Anchor::End, &bar.label);
            let class = if bar.ours { "ours" } else { "theirs" };
            svg.rect((x(0.0), y + 3.0), (x(bar.value) - x(0.0), ROW - 6.0), class);
            if let Some((low, high)) = bar.quartiles {
                svg.line((x(low), middle), (x(high), middle), "range");
                for end in [low, high] {
                    svg.line((x(end), middle - 3.0), (x(end), middle + 3.0), "range");
                }
            }
            let place = (x(end(bar)) + 7.0, middle + 4.0);
            svg.text(place, "small", Anchor::Start, &format(bar.value));
            y += ROW;
        }
    }
    let description: Vec<String> = all()
        .map(|bar| format!("{}: {}", bar.label, format(bar.value)))
        .collect();
    Chart {
        name: name.into(),
        title: title.into(),
        svg: svg.finish(y + MARGIN, title, &description.join("; ")),
    }
}

/// Curves on logarithmic scales in panels side by side. The last name of the legend is a bound and drawn dashed.
pub fn curves(name: &str, title: &str, legend: &[&str], panels: &[Panel]) -> Chart {
    const TOP: f64 = 84.0;
    const HEIGHT: f64 = 260.0;
    const GAP: f64 = 40.0;
    let points = || panels.iter().flat_map(|p| p.curves.iter().flatten());
    let xs = decades(points().map(|p| p.0));
    let ys = decades(points().map(|p| p.1));
    let count = panels.len() as f64;
    let width = (WIDTH - 2.0 * MARGIN - GAP * count) / count;
    let mut svg = Svg::new(WIDTH);
    svg.text((MARGIN, 26.0), "head", Anchor::Start, title);
    draw_legend(&mut svg, legend, 50.0);
    for (i, panel) in panels.iter().enumerate() {
        let left = MARGIN + GAP + i as f64 * (width + GAP);
        let x = |v: f64| left + place(v, xs) * width;
        let y = |v: f64| TOP + (1.0 - place(v, ys)) * HEIGHT;
        svg.text((left, TOP - 10.0), "small", Anchor::Start, &panel.title);
        for power in ys.0..=ys.1 {
            let value = 10f64.powi(power);
            svg.line((left, y(value)), (left + width, y(value)), "grid");
            let at = (left - 5.0, y(value) + 4.0);
            svg.text(at, "small", Anchor::End, &power_of_ten(power));
        }
        for power in xs.0..=xs.1 {
            let at = (x(10f64.powi(power)), TOP + HEIGHT + 16.0);
            svg.text(at, "small", Anchor::Middle, &power_of_ten(power));
        }
        // CountInt is drawn last, on top.
        for (series, curve) in panel.curves.iter().enumerate().rev() {
            let scaled: Vec<(f64, f64)> = curve.iter().map(|&(a, b)| (x(a), y(b))).collect();
            if !scaled.is_empty() {
                svg.curve(&scaled, series, series + 1 == legend.len());
            }
        }
    }
    let bottom = TOP + HEIGHT + 34.0;
    svg.text(
        (WIDTH / 2.0, bottom),
        "small",
        Anchor::Middle,
        "members of a set",
    );
    Chart {
        name: name.into(),
        title: title.into(),
        svg: svg.finish(bottom + 12.0, title, &legend.join(", ")),
    }
}

fn draw_legend(svg: &mut Svg, legend: &[&str], y: f64) {
    let mut x = MARGIN;
    for (series, name) in legend.iter().enumerate() {
        let ends = [(x, y - 4.0), (x + 18.0, y - 4.0)];
        svg.curve(&ends, series, series + 1 == legend.len());
        svg.text((x + 24.0, y), "", Anchor::Start, name);
        x += 44.0 + 6.6 * name.len() as f64;
    }
}

/// The powers of ten that enclose all values.
fn decades(values: impl Iterator<Item = f64>) -> (i32, i32) {
    let (low, high) = values.fold((f64::MAX, f64::MIN_POSITIVE), |(low, high), v| {
        (low.min(v), high.max(v))
    });
    let low = low.min(high).log10().floor() as i32;
    (low, (high.log10().ceil() as i32).max(low + 1))
}

/// The position of a value between two powers of ten: 0 .. 1.
fn place(value: f64, (low, high): (i32, i32)) -> f64 {
    (value.log10() - f64::from(low)) / f64::from(high - low)
}

fn power_of_ten(power: i32) -> String {
    match power {
        6.. => format!("{}M", 10i64.pow(power as u32 - 6)),
        3.. => format!("{}k", 10i64.pow(power as u32 - 3)),
        0.. => 10i64.pow(power as u32).to_string(),
        _ => format!("{:.*}", power.unsigned_abs() as usize, 10f64.powi(power)),
    }
}

/// Operations per second: 950k, 1.25M.
pub fn rate(value: f64) -> String {
    if value >= 1e6 {
        format!("{:.2}M", value / 1e6)
    } else {
        format!("{:.0}k", value / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_enclose_all_values() {
        assert_eq!(decades([0.25, 488.0].into_iter()), (-1, 3));
        assert_eq!(decades([10.0].into_iter()), (1, 2));
        assert_eq!((place(0.1, (-1, 3)), place(1000.0, (-1, 3))), (0.0, 1.0));
    }

    #[test]
    fn numbers_are_abbreviated() {
        let powers: Vec<String> = [-2, -1, 0, 2, 3, 5, 6].map(power_of_ten).into();
        assert_eq!(powers, ["0.01", "0.1", "1", "100", "1k", "100k", "1M"]);
        assert_eq!(
            (rate(602_488.0), rate(2_186_746.0)),
            ("602k".into(), "2.19M".into())
        );
    }

    #[test]
    fn every_bar_is_drawn_with_its_value() {
        let bar = |label: &str, value, ours| Bar {
            label: label.into(),
            value,
            quartiles: Some((value * 0.9, value * 1.1)),
            ours,
        };
        let group = Group {
            title: "one".into(),
            bars: vec![bar("A", 2.0, true), bar("B", 1.0, false)],
        };
        let chart = bars("n", "t", "u", &[group], |v| format!("{v:.1}"));
        assert_eq!(chart.svg.matches("class=\"ours\"").count(), 1);
        assert_eq!(chart.svg.matches("class=\"theirs\"").count(), 1);
        assert!(chart.svg.contains("A: 2.0; B: 1.0"));
    }

    #[test]
    fn every_curve_with_points_is_drawn() {
        let panel = Panel {
            title: "p".into(),
            curves: vec![vec![(1.0, 100.0), (10.0, 10.0)], vec![], vec![(1.0, 5.0)]],
        };
        let chart = curves("n", "t", &["a", "b", "bound"], &[panel]);
        // Three in the legend, two in the panel.
        assert_eq!(chart.svg.matches("<polyline").count(), 5);
    }
}
