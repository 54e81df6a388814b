//! The thread that displays a runtime's progress on standard error: as bars on a terminal, and otherwise as a line of
//! text every few seconds.
//!
//! The thread looks at the units' threads many times a second. This costs them nothing, because it only reads two words
//! of each thread's state. Counters are read a few times a second.
//!
//! Bars appear when tasks have been pending for a while, and disappear as soon as a wait of the program finds nothing
//! pending, so output that the program prints after the wait does not run into the bars. Lines that the library writes
//! appear above the bars.
//!
//! Nothing in this module waits for a task.

use super::bars::{self, Bars};
use super::figures::{Counts, Figures, History, UnitCounts};
use crate::driver::reasons::time;
use crate::driver::shared::Shared;
use crate::runtime::any_driver::AnyDriver;
use crate::runtime::door::Door;
use crate::sync::{Birth, start};
use parking_lot::{Condvar, Mutex};
use std::io;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// The time between two looks at the units' threads.
const LOOK: Duration = Duration::from_millis(20);
/// The time between two updates of the display.
const SHOW: Duration = Duration::from_millis(240);
/// How long tasks must be pending before bars appear.
const PATIENCE: Duration = Duration::from_millis(400);
/// The time between two lines if standard error is not a terminal.
const LINE: Duration = Duration::from_secs(3);

/// The display of one runtime.
pub(in crate::runtime) struct Progress {
    birth: Birth,
    /// Never dropped in a child of `fork`, where a thread that no longer exists may hold the lock.
    inner: ManuallyDrop<Inner>,
}

struct Inner {
    end: Arc<End>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Whether the display must end, with the condition variable that announces it.
#[derive(Default)]
struct End {
    wanted: Mutex<bool>,
    told: Condvar,
}

impl End {
    fn tell(&self) {
        *self.wanted.lock() = true;
        self.told.notify_all();
    }

    /// Waits for at most this long, or until the display must end. Returns whether it must end.
    fn wait(&self, at_most: Duration) -> bool {
        let mut wanted = self.wanted.lock();
        if !*wanted {
            let _ = self.told.wait_for(&mut wanted, at_most);
        }
        *wanted
    }
}

impl Progress {
    /// Starts to display the progress of a runtime.
    ///
    /// # Errors
    /// Fails if the system cannot start a thread.
    pub(super) fn start(door: &Door) -> io::Result<Self> {
        let (end, driver) = (Arc::<End>::default(), door.driver.clone());
        let display = if bars::can_be_drawn() { Display::hidden() } else { Display::lines() };
        let display = Arc::new(Mutex::new(display));
        crate::log::around_lines(|line| suspended(line));
        let rests = display.clone();
        let _first = driver.shared().on_rest.set(Box::new(move || rests.lock().rest()));
        let run = {
            let end = end.clone();
            // A failure of the display must not affect anything else.
            move || drop(catch_unwind(AssertUnwindSafe(|| Watch::new(driver, display).run(&end))))
        };
        let thread = start(Builder::new().name("thalweg-progress".to_owned()), run)?;
        let inner = Inner { end, thread: Mutex::new(Some(thread)) };
        Ok(Self { birth: Birth::here(), inner: ManuallyDrop::new(inner) })
    }

    /// Removes the display. A second call has no effect.
    pub(super) fn end(&self) {
        if self.birth.is_here() {
            self.inner.end.tell();
            let thread = self.inner.thread.lock().take();
            thread.into_iter().for_each(|thread| drop(thread.join()));
        }
    }
}

impl Drop for Progress {
    /// Lets the display end by itself. The drop may happen in a body of the runtime, so it must not wait.
    fn drop(&mut self) {
        if self.birth.is_here() {
            self.inner.end.tell();
            self.inner.thread.lock().take();
        }
    }
}

/// Calls `print` while no bars are on the terminal.
pub(in crate::runtime) fn suspended<R>(print: impl FnOnce() -> R) -> R {
    bars::of_process().suspend(print)
}

/// The two kinds of display.
enum Display {
    Bars {
        /// The bars; `None` while they are not on the terminal.
        bars: Option<Bars>,
        /// Since when tasks have been pending.
        since: Option<Instant>,
    },
    Lines {
        /// The time of the next line.
        next: Instant,
        began: Instant,
        /// Whether any line has been written.
        any: bool,
    },
}

impl Display {
    fn hidden() -> Self {
        Self::Bars { bars: None, since: None }
    }

    fn lines() -> Self {
        let began = Instant::now();
        Self::Lines { next: began + LINE, began, any: false }
    }

    /// Shows the figures of a runtime.
    fn show(&mut self, shared: &Shared, figures: &Figures) {
        match self {
            Self::Bars { .. } if figures.done >= figures.submitted => self.rest(),
            Self::Bars { bars: Some(bars), .. } => bars.update(&shared.machine, figures),
            Self::Bars { bars, since } => {
                if since.get_or_insert_with(Instant::now).elapsed() >= PATIENCE {
                    *bars = Some(Bars::new(bars::of_process(), shared.name(), &shared.machine, figures));
                }
            }
            Self::Lines { next, any, .. } if Instant::now() >= *next => {
                write(shared.name(), figures);
                (*next, *any) = (Instant::now() + LINE, true);
            }
            Self::Lines { .. } => {}
        }
    }

    /// Removes the bars.
    fn rest(&mut self) {
        if let Self::Bars { bars, since } = self {
            bars.take().into_iter().for_each(|bars| bars.clear());
            *since = None;
        }
    }

    fn end(&mut self, name: Option<&str>, figures: &Figures) {
        match self {
            Self::Bars { .. } => self.rest(),
            Self::Lines { any: true, began, .. } => {
                let Figures { done, submitted, .. } = figures;
                write(name, &format_args!("{done} of {submitted} tasks done in {}", time(began.elapsed())));
            }
            Self::Lines { .. } => {} // a short program needs no line
        }
    }
}

fn write(name: Option<&str>, text: &dyn std::fmt::Display) {
    let name = name.map_or_else(String::new, |name| format!("{name}: "));
    crate::log::write(format_args!("thalweg: {name}{text}"));
}

/// The state of the thread.
struct Watch {
    driver: AnyDriver,
    display: Arc<Mutex<Display>>,
    history: History,
    /// For each unit, the number of looks that found it busy.
    found_busy: Vec<u64>,
    looks: u64,
    built: Instant,
}

impl Watch {
    fn new(driver: AnyDriver, display: Arc<Mutex<Display>>) -> Self {
        let found_busy = vec![0; driver.shared().machine.num_units()];
        Self { driver, display, history: History::default(), found_busy, looks: 0, built: Instant::now() }
    }

    /// The main function of the thread.
    fn run(mut self, end: &End) {
        let mut next_show = Instant::now();
        loop {
            let is_idle = self.driver.shared().progress.pending() == 0;
            let ends = end.wait(if is_idle { SHOW } else { LOOK });
            self.look();
            if ends || Instant::now() >= next_show {
                next_show = Instant::now() + SHOW;
                let counts = self.counts();
                let figures = self.history.add(counts);
                let (shared, mut display) = (self.driver.shared(), self.display.lock());
                if ends {
                    return display.end(shared.name(), &figures);
                }
                display.show(shared, &figures);
            }
        }
    }

    /// Checks which units are computing at the moment.
    fn look(&mut self) {
        self.looks += 1;
        let shared = self.driver.shared();
        for (n, found) in self.found_busy.iter_mut().enumerate() {
            *found += u64::from(shared.seems_busy(n));
        }
    }

    fn counts(&self) -> Counts {
        let shared = self.driver.shared();
        let (done, submitted) = shared.progress.of_users();
        let (traffic, busy_ns) = shared.engine.usage();
        let busy = |n: usize| Duration::from_nanos(busy_ns.get(n).copied().unwrap_or(0));
        let unit = |(n, tasks): (usize, u64)| UnitCounts { tasks, busy: busy(n), found_busy: self.found_busy[n] };
        Counts {
            at: self.built.elapsed(),
            driver_at: self.driver.now(),
            done,
            submitted,
            units: shared.finished_by_unit().into_iter().enumerate().map(unit).collect(),
            links: traffic.into_iter().map(|(between, traffic)| (between, traffic.bytes)).collect(),
            looks: self.looks,
        }
    }
}
