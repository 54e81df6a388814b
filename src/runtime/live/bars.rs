//! The progress display on a terminal, which uses bars of the crate `indicatif` and is shared by all runtimes of a
//! process.
//!
//! There is one bar for the tasks, a line for each unit, and a line for each pair of memories between which data were
//! copied. Units and links that would not fit on a terminal are left out.
//!
//! Nothing in this module computes a figure.

use super::figures::{Figures, rate};
use crate::driver::reasons::bytes;
use crate::machine::Machine;
use crate::sync::{Birth, share};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use parking_lot::Mutex;

/// The maximum number of units that have a line.
const MOST_UNITS: usize = 16;
/// The maximum number of links that have a line.
const MOST_LINKS: usize = 8;

/// The display that the runtimes of a process share.
static SHARED: Mutex<Option<(Birth, MultiProgress)>> = Mutex::new(None);

/// Returns the display of this process. A child of `fork` gets a new display, because the locks of its parent's display
/// may stay locked.
pub(super) fn of_process() -> MultiProgress {
    let (_unforked, mut shared) = (share(), SHARED.lock());
    if let Some((_, parents)) = shared.take_if(|(birth, _)| !birth.is_here()) {
        std::mem::forget(parents);
    }
    shared.get_or_insert_with(|| (Birth::here(), MultiProgress::new())).1.clone()
}

/// Returns whether bars can be drawn on standard error.
pub(super) fn can_be_drawn() -> bool {
    !ProgressDrawTarget::stderr().is_hidden()
}

/// The bars of one runtime.
pub(super) struct Bars {
    display: MultiProgress,
    /// The bar of the tasks, then the bars of the units, then the bars of the links.
    bars: Vec<Bar>,
}

/// A bar with its contents.
struct Bar {
    bar: ProgressBar,
    shows: (u64, u64, String),
}

impl Bars {
    /// Creates the bars of a runtime with this name and this machine, which show these figures.
    pub(super) fn new(display: MultiProgress, name: Option<&str>, machine: &Machine, figures: &Figures) -> Self {
        let name = name.map_or_else(String::new, |name| format!("{name} "));
        let mut bars = Self { display, bars: Vec::new() };
        bars.show(name, machine, figures);
        bars
    }

    /// Shows new figures.
    pub(super) fn update(&mut self, machine: &Machine, figures: &Figures) {
        self.show(String::new(), machine, figures);
    }

    /// Shows these figures, and creates bars that do not exist yet.
    fn show(&mut self, name: String, machine: &Machine, figures: &Figures) {
        let tasks = (figures.done, figures.submitted, figures.time_left());
        self.set(0, "{prefix}{bar:40} {pos}/{len} tasks, {msg}", || name, tasks);
        let units = machine.units().iter().zip(&figures.units).take(MOST_UNITS);
        let mut next = 1;
        for (unit, (tasks, busy)) in units {
            let shows = ((busy * 100.0).round() as u64, 100, format!("{tasks} tasks"));
            let name = || format!("{} ({})", unit.id, unit.kind);
            self.set(next, "  {prefix:14} {bar:20} {pos:>3} % busy, {msg}", name, shows);
            next += 1;
        }
        for ((from, to), copied, per_second) in figures.links.iter().take(MOST_LINKS) {
            let shows = (0, 0, format!("{}, {} in total", rate(*per_second), bytes(*copied)));
            self.set(next, "  {prefix:21} {msg}", || format!("{from} to {to}"), shows);
            next += 1;
        }
    }

    /// Sets the position, length and message of the bar with index `n`. If the bar does not exist yet, creates it with
    /// this template and name. Each change triggers a redraw, so unchanged contents are not set again.
    fn set(&mut self, n: usize, template: &str, name: impl FnOnce() -> String, shows: (u64, u64, String)) {
        let Some(Bar { bar, shows: before }) = self.bars.get_mut(n) else {
            let bar = ProgressBar::with_draw_target(Some(shows.1), ProgressDrawTarget::hidden());
            let bar = bar.with_style(style(template)).with_prefix(name()).with_position(shows.0);
            let bar = self.display.add(bar.with_message(shows.2.clone()));
            bar.tick();
            return self.bars.push(Bar { bar, shows });
        };
        if before.1 != shows.1 {
            bar.set_length(shows.1);
        }
        if before.2 != shows.2 {
            bar.set_message(shows.2.clone());
        }
        if before.0 != shows.0 {
            bar.set_position(shows.0);
        }
        *before = shows;
    }

    /// Removes the bars.
    pub(super) fn clear(&self) {
        for Bar { bar, .. } in self.bars.iter().rev() {
            bar.finish_and_clear();
            self.display.remove(bar);
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the template is valid")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::SpaceId;
    use crate::machine::Topology;
    use indicatif::TermLike;
    use std::io;
    use std::sync::{Arc, Mutex as StdMutex};
    use std::time::Duration;

    /// A terminal that keeps the drawn text, and wraps long lines as terminals do.
    #[derive(Debug, Clone, Default)]
    struct Screen(Arc<StdMutex<Drawn>>);

    #[derive(Debug, Default)]
    struct Drawn {
        rows: Vec<Vec<char>>,
        row: usize,
        column: usize,
    }

    const WIDTH: usize = 100;

    impl Screen {
        fn draw(&self, draw: impl FnOnce(&mut Drawn)) -> io::Result<()> {
            draw(&mut self.0.lock().unwrap());
            Ok(())
        }

        /// Returns the lines that are not empty.
        fn lines(&self) -> Vec<String> {
            let text = |row: &Vec<char>| row.iter().collect::<String>().trim_end().to_owned();
            self.0.lock().unwrap().rows.iter().map(text).filter(|line| !line.is_empty()).collect()
        }
    }

    impl Drawn {
        fn row(&mut self) -> &mut Vec<char> {
            self.rows.resize(self.rows.len().max(self.row + 1), Vec::new());
            &mut self.rows[self.row]
        }

        fn put(&mut self, c: char) {
            match c {
                '\r' => self.column = 0,
                '\n' => (self.row, self.column) = (self.row + 1, 0),
                c => {
                    if self.column == WIDTH {
                        (self.row, self.column) = (self.row + 1, 0);
                    }
                    let column = self.column;
                    self.row().resize(WIDTH, ' ');
                    self.row()[column] = c;
                    self.column += 1;
                }
            }
        }
    }

    impl TermLike for Screen {
        fn width(&self) -> u16 {
            WIDTH as u16
        }
        fn move_cursor_up(&self, n: usize) -> io::Result<()> {
            self.draw(|drawn| drawn.row = drawn.row.saturating_sub(n))
        }
        fn move_cursor_down(&self, n: usize) -> io::Result<()> {
            self.draw(|drawn| drawn.row += n)
        }
        fn move_cursor_right(&self, n: usize) -> io::Result<()> {
            self.draw(|drawn| drawn.column += n)
        }
        fn move_cursor_left(&self, n: usize) -> io::Result<()> {
            self.draw(|drawn| drawn.column = drawn.column.saturating_sub(n))
        }
        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(text)?;
            self.write_str("\n")
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            self.draw(|drawn| text.chars().for_each(|c| drawn.put(c)))
        }
        fn clear_line(&self) -> io::Result<()> {
            self.draw(|drawn| {
                drawn.row().clear();
                drawn.column = 0;
            })
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn terminal_shows_tasks_units_and_links_until_they_are_cleared() {
        let screen = Screen::default();
        let target = ProgressDrawTarget::term_like_with_hz(Box::new(screen.clone()), 255);
        let machine = Machine::plan(&"1:CPU:1,1:EMU:1".parse().unwrap(), None, &Topology::with_cores(4)).unwrap();
        let display = MultiProgress::with_draw_target(target);
        let figures = Figures {
            done: 30,
            submitted: 60,
            left: Some(Duration::from_secs(5)),
            units: vec![(20, 0.98), (10, 0.4)],
            links: vec![((SpaceId::HOST, SpaceId(1)), 8_000_000, 2e6)],
        };
        let before = Figures { done: 10, units: vec![(5, 1.0), (5, 0.0)], links: Vec::new(), ..figures.clone() };
        let mut bars = Bars::new(display, Some("job"), &machine, &before);
        assert!(
            screen.lines().len() == 3 && screen.lines()[2].ends_with("  0 % busy, 5 tasks"),
            "{:?}",
            screen.lines()
        );
        bars.update(&machine, &figures);
        let lines = screen.lines();
        assert!(lines[0].starts_with("job ") && lines[0].ends_with(" 30/60 tasks, 5 s left"), "{lines:?}");
        assert!(lines[1].starts_with("  unit 0 (CPU)") && lines[1].ends_with("  98 % busy, 20 tasks"), "{lines:?}");
        assert!(lines[2].starts_with("  unit 1 (EMU)") && lines[2].ends_with("  40 % busy, 10 tasks"), "{lines:?}");
        assert!(
            lines[3].starts_with("  host to space 1") && lines[3].ends_with("2.0 MB/s, 8.0 MB in total"),
            "{lines:?}"
        );
        // A line of the program is written above the bars, which are drawn again below it.
        bars.display.suspend(|| screen.write_line("a line of the program").unwrap());
        let lines = screen.lines();
        assert!(lines.len() == 5 && lines[0] == "a line of the program" && lines[1].starts_with("job "), "{lines:?}");
        bars.clear();
        assert_eq!(screen.lines(), ["a line of the program"]);
    }
}
