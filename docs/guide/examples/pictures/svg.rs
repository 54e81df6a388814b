//! Rectangles and texts as SVG.

use std::fmt::Write as _;

pub(crate) struct Svg {
    width: f64,
    height: f64,
    body: String,
}

impl Svg {
    pub(crate) fn new(width: f64, height: f64) -> Self {
        Self { width, height, body: String::new() }
    }

    pub(crate) fn rectangle(&mut self, [x, y, width, height]: [f64; 4], colour: &str) {
        let _ = writeln!(
            self.body,
            r##"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" fill="{colour}" stroke="#fff" stroke-width="0.5"/>"##
        );
    }

    /// Adds a text with its start, end or middle (`start`, `end`, `middle`) at `x` and its baseline at `y`.
    pub(crate) fn text(&mut self, [x, y]: [f64; 2], size: f64, anchor: &str, text: &str) {
        let text = text.replace('&', "&amp;").replace('<', "&lt;");
        let _ = writeln!(
            self.body,
            r##"<text x="{x:.1}" y="{y:.1}" font-size="{size}" text-anchor="{anchor}" fill="#222">{text}</text>"##
        );
    }

    pub(crate) fn finish(self) -> String {
        let Self { width, height, body } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" font-family=\"sans-serif\">\n<rect width=\"100%\" height=\"100%\" \
             fill=\"#fff\"/>\n{body}</svg>\n"
        )
    }
}
