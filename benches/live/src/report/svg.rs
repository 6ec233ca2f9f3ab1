//! Minimal SVG for charts: shapes with classes, and a style sheet for light and dark color schemes.

use std::fmt::Write;

/// A drawing of fixed width. Its height is set at the end.
pub struct Svg {
    width: f64,
    body: String,
}

/// The colours of the series in the light and the dark scheme, CountInt first. Colour-blind readers can distinguish them.
const SERIES: [(&str, &str); 7] = [
    ("#0969da", "#4493f8"),
    ("#d4660a", "#f0883e"),
    ("#0a8a4a", "#3fb950"),
    ("#8250df", "#b083f0"),
    ("#bf3989", "#f778ba"),
    ("#0d8a96", "#39c5cf"),
    ("#7d8590", "#9198a1"),
];

/// The anchor of a text.
#[derive(Clone, Copy)]
pub enum Anchor {
    /// At its start.
    Start,
    /// At its middle.
    Middle,
    /// At its end.
    End,
}

impl Svg {
    /// An empty drawing.
    pub fn new(width: f64) -> Svg {
        Svg {
            width,
            body: String::new(),
        }
    }

    /// Adds text with its baseline at `y`.
    pub fn text(&mut self, (x, y): (f64, f64), class: &str, anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let _ = writeln!(
            self.body,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\" text-anchor=\"{anchor}\">{}</text>",
            escaped(text)
        );
    }

    /// Adds a filled rectangle, given by its corner and size.
    pub fn rect(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), class: &str) {
        let _ = writeln!(
            self.body,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" class=\"{class}\"/>"
        );
    }

    /// Adds a straight line.
    pub fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), class: &str) {
        let _ = writeln!(
            self.body,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" class=\"{class}\"/>"
        );
    }

    /// Adds a line through points, with a dot on each unless it is dashed.
    pub fn curve(&mut self, points: &[(f64, f64)], series: usize, dashed: bool) {
        let path: Vec<String> = points
            .iter()
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        let class = if dashed { " dashed" } else { "" };
        let _ = writeln!(
            self.body,
            "<polyline points=\"{}\" class=\"curve line{series}{class}\"/>",
            path.join(" ")
        );
        for (x, y) in points.iter().filter(|_| !dashed) {
            let _ = writeln!(
                self.body,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.6\" class=\"fill{series}\"/>"
            );
        }
    }

    /// The content of the file. Screen readers read `title` and `description`.
    pub fn finish(self, height: f64, title: &str, description: &str) -> String {
        let width = self.width;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
             height=\"{height:.0}\" role=\"img\" aria-labelledby=\"title description\">\n\
             <title id=\"title\">{}</title>\n<desc id=\"description\">{}</desc>\n<style>\n{}</style>\n\
             <rect width=\"100%\" height=\"100%\" rx=\"6\" class=\"background\"/>\n{}</svg>\n",
            escaped(title),
            escaped(description),
            style(),
            self.body
        )
    }
}

/// The style sheet. It sets the background, so that the chart is legible on any page.
fn style() -> String {
    let mut style = String::from(
        "text { font: 12px system-ui, -apple-system, \"Segoe UI\", \"DejaVu Sans\", sans-serif }\n\
         .head { font-weight: 600 }\n.small { font-size: 11px }\n\
         .curve { fill: none; stroke-width: 1.8 }\n.line0 { stroke-width: 2.8 }\n.dashed { stroke-dasharray: 4 4 }\n\
         .grid { stroke-width: 1 }\n.range { stroke-width: 1.4 }\n",
    );
    style.push_str(&colours(
        "#ffffff",
        "#1f2328",
        "#59636e",
        "#d8dee4",
        SERIES.map(|s| s.0),
    ));
    style.push_str("@media (prefers-color-scheme: dark) {\n");
    style.push_str(&colours(
        "#0d1117",
        "#e6edf3",
        "#9198a1",
        "#30363d",
        SERIES.map(|s| s.1),
    ));
    style.push_str("}\n");
    style
}

fn colours(background: &str, ink: &str, dim: &str, grid: &str, series: [&str; 7]) -> String {
    let mut style = format!(
        ".background {{ fill: {background} }}\ntext {{ fill: {ink} }}\n.small {{ fill: {dim} }}\n.grid {{ stroke: {grid} }}\n\
         .range {{ stroke: {ink} }}\n.ours {{ fill: {} }}\n.theirs {{ fill: {} }}\n",
        series[0], series[6]
    );
    for (i, colour) in series.iter().enumerate() {
        let _ = writeln!(
            style,
            ".line{i} {{ stroke: {colour} }} .fill{i} {{ fill: {colour} }}"
        );
    }
    style
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_the_style_has_a_dark_scheme() {
        let mut svg = Svg::new(100.0);
        svg.text((1.0, 2.0), "head", Anchor::End, "a < b & c");
        let file = svg.finish(50.0, "t", "d");
        assert!(file.contains("text-anchor=\"end\">a &lt; b &amp; c</text>"));
        assert!(file.contains("prefers-color-scheme: dark"));
        assert!(file.contains("viewBox=\"0 0 100 50\""));
    }

    #[test]
    fn a_dashed_curve_has_no_dots() {
        let mut svg = Svg::new(10.0);
        svg.curve(&[(0.0, 0.0), (1.0, 1.0)], 2, true);
        assert!(!svg.body.contains("circle") && svg.body.contains("line2 dashed"));
    }
}
