//! Human-readable figures: durations, sizes and shares, with three digits and a unit.
//!
//! Programs should not parse these texts; the tables have the exact numbers.

/// Formats nanoseconds: `830 ns`, `8.31 µs`, `2.5 s`, `84 s`.
pub fn duration(ns: u64) -> String {
    scaled(ns as f64, 1000.0, &["ns", "µs", "ms", "s"])
}

/// Formats bytes: `640 B`, `1.21 GiB`.
pub fn bytes(bytes: u64) -> String {
    scaled(bytes as f64, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB", "PiB"])
}

/// Formats a share of a whole: `62 %`, `0.4 %`. A share of nothing is `0 %`.
pub fn share(part: u64, whole: u64) -> String {
    let percent = percent(part, whole);
    if percent > 0.0 && percent < 9.95 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

/// Returns a share of a whole in percent, or 0 if the whole is 0.
pub fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 }
}

/// Formats a ratio with three digits: `0.98×`, `12.5×`, `340×`.
pub fn ratio(ratio: f64) -> String {
    let digits = match ratio {
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{ratio:.digits$}×")
}

/// Formats a count with its noun: `1 task`, `12 tasks`.
pub fn counted(number: u64, noun: &str) -> String {
    let plural = match noun.strip_suffix('y') {
        _ if number == 1 => return format!("1 {noun}"),
        Some(stem) => format!("{stem}ies"),
        None => format!("{noun}s"),
    };
    format!("{number} {plural}")
}

/// Returns a name that fits on one line: control characters are escaped, and the result is truncated to `most`
/// characters.
pub fn one_line(name: &str, most: usize) -> String {
    let mut line = String::new();
    for letter in name.chars() {
        if letter.is_control() { line.extend(letter.escape_default()) } else { line.push(letter) }
    }
    if line.chars().count() > most {
        line = line.chars().take(most.saturating_sub(1)).chain(['…']).collect();
    }
    line
}

/// Formats a number with three digits, in the largest unit in which the number is at least 1.
fn scaled(mut number: f64, step: f64, units: &[&str]) -> String {
    let mut at = 0;
    while number >= step - 0.5 && at + 1 < units.len() {
        number /= step;
        at += 1;
    }
    let digits = match number {
        number if at == 0 || number >= 99.95 => 0,
        number if number >= 9.995 => 1,
        _ => 2,
    };
    let text = format!("{number:.digits$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} {}", units[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_and_a_unit() {
        let durations = [(0, "0 ns"), (999, "999 ns"), (1000, "1 µs"), (8314, "8.31 µs"), (99_960, "100 µs")];
        durations.into_iter().for_each(|(ns, text)| assert_eq!(duration(ns), text));
        assert_eq!(duration(999_999), "1 ms");
        assert_eq!(duration(84_000_000_000), "84 s");
        assert_eq!([ratio(0.984), ratio(9.996), ratio(340.2)], ["0.98×", "10.0×", "340×"]);
        assert_eq!(bytes(640), "640 B");
        assert_eq!(bytes(1 << 20), "1 MiB");
        assert_eq!(bytes(u64::MAX), "16384 PiB");
        assert_eq!([share(1, 200), share(1, 3), share(0, 0)], ["0.5 %", "33 %", "0 %"]);
        assert_eq!([counted(1, "copy"), counted(2, "copy"), counted(0, "task")], ["1 copy", "2 copies", "0 tasks"]);
    }

    #[test]
    fn names_fit_one_line() {
        assert_eq!(one_line("a\tb\n", 20), "a\\tb\\n");
        assert_eq!(one_line("äöü 🦀 <script>", 6), "äöü 🦀…");
        assert_eq!(one_line("exact", 5), "exact");
    }
}
