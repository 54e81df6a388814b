//! Parts of a vector, drawn over its cache lines.

use crate::Result;
use crate::svg::Svg;
use std::ops::Range;
use thalweg::prelude::*;

/// The number of elements in the vector, and in a line of 64 bytes.
const LEN: usize = 192;
const LINE: usize = 64 / size_of::<f64>();
/// Width of an element, height of a row, distance between rows, and left margin.
const WIDTH: f64 = 3.4;
const HEIGHT: f64 = 26.0;
const APART: f64 = 74.0;
const LEFT: f64 = 20.0;
const COLOURS: [&str; 4] = ["#c6dbef", "#9ecae1", "#6baed6", "#4292c6"];
const SHARED: &str = "#e6550d";

pub(crate) fn draw() -> Result<String> {
    let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    let x: Data<f64> = rt.zeros(LEN);
    let cuts = [
        ("x.blocks(50)", x.blocks(50)),
        ("x.blocks(50).on_lines()", x.blocks(50).on_lines()),
        ("x.slice(1..191).blocks(50).on_lines()", x.slice(1..LEN - 1).blocks(50).on_lines()),
    ];
    let mut picture = Svg::new(2.0 * LEFT + WIDTH * LEN as f64, 20.0 + APART * cuts.len() as f64);
    for (row, (code, parts)) in cuts.iter().enumerate() {
        let y = 30.0 + APART * row as f64;
        let ranges: Vec<_> = parts.iter().map(|part| part.range(0)).collect();
        let shared = (0..LEN).step_by(LINE).filter(|line| sharers(&ranges, *line..line + LINE) > 1);
        let lines: Vec<usize> = shared.collect();
        picture.text([LEFT, y - 8.0], 14.0, "start", code);
        let parts = format!("{} parts, {} lines of two parts", ranges.len(), lines.len());
        picture.text([LEFT + WIDTH * LEN as f64, y - 8.0], 12.0, "end", &parts);
        for (part, colour) in ranges.iter().zip(COLOURS) {
            picture.rectangle(place(part.clone(), y, HEIGHT), colour);
            let [left, _, width, _] = place(part.clone(), y, HEIGHT);
            picture.text([left + width / 2.0, y + 17.0], 11.0, "middle", &format!("{}..{}", part.start, part.end));
        }
        for line in (0..LEN).step_by(LINE) {
            let colour = if lines.contains(&line) { SHARED } else { "#d9d9d9" };
            picture.rectangle(place(line..line + LINE, y + HEIGHT + 3.0, 9.0), colour);
        }
        println!("lines: {code} has {parts}");
    }
    Ok(picture.finish())
}

/// Returns the number of parts with elements in a line.
fn sharers(parts: &[Range<usize>], line: Range<usize>) -> usize {
    parts.iter().filter(|part| part.start < line.end && line.start < part.end).count()
}

fn place(elements: Range<usize>, y: f64, height: f64) -> [f64; 4] {
    [LEFT + WIDTH * elements.start as f64, y, WIDTH * elements.len() as f64, height]
}
