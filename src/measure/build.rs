//! Repeated concurrent runs of components, from which time or energy profiles are built.

use super::rule::{Point, Stop, Values};
use crate::energy::{EnergyMeter, MeterError, measure_energy};
use crate::sched::fpm::{FpmError, Profile};
use crate::sync::start_scoped;
use std::fmt;
use std::sync::{Barrier, OnceLock};
use std::thread::{Builder, ScopedJoinHandle, scope};
use std::time::{Duration, Instant};

/// The work that one unit does on its share.
///
/// ```
/// use thalweg::measure::Component;
/// let mut total = 0;
/// let _sums = Component::new("CPU:1", |size| total += (0..size).sum::<u64>());
/// ```
pub struct Component<'a> {
    name: String,
    /// Runs the component on a share of the given size. Returns the time in seconds if the component measures it
    /// itself.
    run: Box<dyn FnMut(u64) -> Option<f64> + Send + 'a>,
}

impl fmt::Debug for Component<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Component").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<'a> Component<'a> {
    /// Creates a component that calls `run` with the size of a share and is timed from outside. `name` becomes the
    /// profile's name. If the scheduler `fpm` is to use the profile, the name must be a unit in configuration syntax,
    /// such as `CPU:4`.
    pub fn new(name: impl Into<String>, mut run: impl FnMut(u64) + Send + 'a) -> Self {
        let run = move |size| {
            run(size);
            None
        };
        Self { name: name.into(), run: Box::new(run) }
    }

    /// Creates a component that reports its own time in seconds, measured for instance on a simulated clock.
    pub fn reporting(name: impl Into<String>, mut run: impl FnMut(u64) -> f64 + Send + 'a) -> Self {
        Self { name: name.into(), run: Box::new(move |size| Some(run(size))) }
    }

    fn timed(&mut self, size: u64) -> f64 {
        let start = Instant::now();
        let reported = (self.run)(size);
        reported.unwrap_or_else(|| start.elapsed().as_secs_f64())
    }
}

/// A profile and the precision of its points.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct MeasuredProfile {
    /// Profile of the mean values.
    pub profile: Profile,
    /// The measurements for each size.
    pub points: Vec<Point>,
}

/// The reason why no profile was built.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MeasureError {
    /// No sizes were given, the sizes do not ascend, or a reported time is invalid.
    #[error(transparent)]
    Profile(#[from] FpmError),
    /// The energy could not be measured.
    #[error(transparent)]
    Meter(#[from] MeterError),
    /// The system could not start a thread for each component, so none of them ran.
    #[error("cannot start a thread for the component `{component}`: {problem}; try fewer components")]
    Thread {
        /// The first component without a thread.
        component: String,
        /// The system's reason.
        problem: String,
    },
}

/// Measures the time of every component at every size, with all components running concurrently, until each mean is
/// known as precisely as `stop` requires. A component whose mean is already known keeps running while other means are
/// not known, because the remaining components have to be measured alongside it.
///
/// # Errors
/// Returns [`MeasureError::Profile`] if the sizes do not ascend from 1 or a component reports an invalid time, and
/// [`MeasureError::Thread`] if the system cannot start a thread for each component.
///
/// # Panics
/// If a component panics.
///
/// ```
/// use thalweg::measure::{Component, Stop, build_profiles};
/// // Two units of a machine whose times are known.
/// let cpu = Component::reporting("CPU:1", |size| size as f64 * 2e-3);
/// let gpu = Component::reporting("GPU:1", |size| 1e-3 + size as f64 * 1e-3);
/// let built = build_profiles(vec![cpu, gpu], &[100, 200], &Stop::default())?;
/// let us: Vec<_> = built[1].profile.points().iter().map(|(size, s)| (*size, (s * 1e6).round())).collect();
/// assert_eq!(us, [(100, 101_000.0), (200, 201_000.0)]);
/// assert_eq!(built[0].points[0].runs, 3, "the fewest that the rule allows");
/// # Ok::<(), thalweg::measure::MeasureError>(())
/// ```
#[track_caller]
pub fn build_profiles(
    mut components: Vec<Component<'_>>,
    sizes: &[u64],
    stop: &Stop,
) -> Result<Vec<MeasuredProfile>, MeasureError> {
    let names: Vec<String> = components.iter().map(|component| component.name.clone()).collect();
    check(&names, sizes)?;
    let mut points = vec![Vec::new(); components.len()];
    for size in sizes {
        let mut values = vec![Values::default(); components.len()];
        let start = Instant::now();
        loop {
            let together = run_together(&mut components, *size, |_| Builder::new())?;
            for ((name, values), value) in names.iter().zip(&mut values).zip(together) {
                values.0.push(sane(name, *size, value)?);
            }
            if values.iter().all(|values| values.is_enough(stop)) || is_over(stop, values[0].0.len(), start.elapsed()) {
                break;
            }
        }
        points.iter_mut().zip(&values).for_each(|(points, values)| points.push(values.point(*size, stop)));
    }
    names.into_iter().zip(points).map(|(name, points)| profile(name, points)).collect()
}

/// Measures the dynamic energy of one component at every size, until each mean is known as precisely as `stop`
/// requires. Nothing else should run meanwhile. `static_w` is the power in watts that the meter shows while nothing
/// runs.
///
/// # Errors
/// Returns [`MeasureError::Profile`] if the sizes do not ascend from 1 or the meter shows an invalid energy, and
/// [`MeasureError::Meter`] if the meter cannot be read.
///
/// ```
/// use thalweg::energy::FileMeter;
/// use thalweg::measure::{Component, Stop, energy_profile};
/// let cpu = Component::new("CPU:1", |size| drop((0..size).sum::<u64>()));
/// let error = energy_profile(cpu, &[100], &Stop::default(), &mut FileMeter::new("no/such/file"), 146.0).unwrap_err();
/// assert!(error.to_string().starts_with("cannot read the energy meter"));
/// ```
pub fn energy_profile(
    mut component: Component<'_>,
    sizes: &[u64],
    stop: &Stop,
    meter: &mut (impl EnergyMeter + ?Sized),
    static_w: f64,
) -> Result<MeasuredProfile, MeasureError> {
    check(std::slice::from_ref(&component.name), sizes)?;
    let mut points = Vec::new();
    for size in sizes {
        let mut values = Values::default();
        let start = Instant::now();
        loop {
            let (_, energy) = measure_energy(meter, static_w, || component.timed(*size));
            // The meter's resolution may be coarser than a short run, so the difference can be negative.
            values.0.push(sane(&component.name, *size, energy?.max(0.0))?);
            if values.is_enough(stop) || is_over(stop, values.0.len(), start.elapsed()) {
                break;
            }
        }
        points.push(values.point(*size, stop));
    }
    profile(component.name, points)
}

/// Validates the sizes before anything runs.
fn check(names: &[String], sizes: &[u64]) -> Result<(), FpmError> {
    let points: Vec<(u64, f64)> = sizes.iter().map(|size| (*size, 0.0)).collect();
    let Some(name) = names.first() else { return Err(FpmError::NoUnits { size: sizes.last().copied().unwrap_or(0) }) };
    Profile::new(name, points).map(|_| ())
}

fn sane(name: &str, size: u64, value: f64) -> Result<f64, FpmError> {
    Profile::new(name, [(size, value)]).map(|_| value)
}

fn is_over(stop: &Stop, runs: usize, elapsed: Duration) -> bool {
    runs >= stop.most.max(1) || runs >= stop.least && elapsed.as_secs_f64() > stop.seconds
}

fn profile(name: String, points: Vec<Point>) -> Result<MeasuredProfile, MeasureError> {
    let means: Vec<(u64, f64)> = points.iter().map(|point| (point.size, point.mean)).collect();
    Ok(MeasuredProfile { profile: Profile::new(name, means)?, points })
}

/// Runs all components once, starting simultaneously on threads that `thread` describes. Returns each component's time.
/// If a thread is missing, no component runs.
fn run_together(
    components: &mut [Component<'_>],
    size: u64,
    thread: impl Fn(&Component<'_>) -> Builder,
) -> Result<Vec<f64>, MeasureError> {
    let (is_complete, barrier) = (&OnceLock::<bool>::new(), &Barrier::new(components.len()));
    scope(|scope| {
        let started = components.iter_mut().map(|component| {
            let (builder, name) = (thread(component), component.name.clone());
            let run = move || {
                is_complete.wait().then(|| {
                    barrier.wait();
                    component.timed(size)
                })
            };
            let started = start_scoped(builder, scope, run);
            started.map_err(|error| MeasureError::Thread { component: name, problem: error.to_string() })
        });
        let started: Result<Vec<_>, _> = started.collect();
        is_complete.set(started.is_ok()).expect("only this thread tells the others");
        let ended = started?.into_iter().map(ScopedJoinHandle::join);
        let times = ended.map(|time| time.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        Ok(times.map(|time| time.expect("all threads were started, so each component has run")).collect())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    #[test]
    fn components_run_at_the_same_time_until_the_last_mean_is_known() {
        // Each component waits for the other in the middle of its run, so the test would hang if they ran one after
        // the other.
        let meeting = &Barrier::new(2);
        let runs = &AtomicUsize::new(0);
        let steady = Component::reporting("a", |_| {
            meeting.wait();
            1.0
        });
        let noisy = Component::reporting("b", move |_| {
            meeting.wait();
            // 1.0, 1.2, 1.0, 1.2, ...: 5 % of the mean after 19 runs.
            1.0 + 0.2 * (runs.fetch_add(1, SeqCst) % 2) as f64
        });
        let built =
            build_profiles(vec![steady, noisy], &[7], &Stop { seconds: f64::INFINITY, ..Stop::default() }).unwrap();
        let [steady, noisy] = &built[..] else { unreachable!() };
        let point = noisy.points[0];
        assert_eq!((steady.points[0].runs, point.runs), (point.runs, runs.load(SeqCst)));
        assert!(point.precision <= 0.05 && point.runs > 3, "{point:?}");
        assert!((steady.profile.at(7), steady.points[0].precision) == (1.0, 0.0));
        let before: Vec<f64> = (0..point.runs - 1).map(|n| 1.0 + 0.2 * (n % 2) as f64).collect();
        assert!(!Values(before).is_enough(&Stop::default()), "no more runs than needed");
    }

    #[test]
    fn number_of_runs_and_seconds_are_limited() {
        let mut n = 0.0;
        let grows = Component::reporting("a", |_| {
            n += 1.0;
            n
        });
        let built = build_profiles(vec![grows], &[1], &Stop { most: 9, ..Stop::default() }).unwrap();
        assert_eq!((built[0].points[0].runs, built[0].profile.at(1)), (9, 5.0));
        let slow = Component::reporting("a", |_| 1.0);
        let stop = Stop { seconds: -1.0, precision: -1.0, ..Stop::default() };
        assert_eq!(build_profiles(vec![slow], &[1], &stop).unwrap()[0].points[0].runs, 3);
    }

    #[test]
    fn invalid_sizes_and_times_are_rejected_with_the_component() {
        let run = |sizes: &[u64], seconds: f64| {
            let component = Component::reporting("GPU:1", move |_| seconds);
            build_profiles(vec![component], sizes, &Stop::default()).unwrap_err().to_string()
        };
        assert!(run(&[2, 1], 1.0).contains("GPU:1 has size 1 after 2"));
        assert!(run(&[], 1.0).contains("GPU:1 has no point"));
        assert!(run(&[5], f64::NAN).contains("GPU:1 has NaN at size 5"));
        assert!(build_profiles(vec![], &[1], &Stop::default()).is_err());
    }

    #[test]
    #[should_panic(expected = "no memory")]
    fn panic_of_a_component_is_propagated() {
        let components = vec![Component::new("a", |_| ()), Component::new("b", |_| panic!("no memory"))];
        let _ = build_profiles(components, &[1], &Stop::default());
    }

    #[test]
    fn missing_thread_is_an_error_and_no_component_runs() {
        let runs = &AtomicUsize::new(0);
        let counted = |name| Component::new(name, |_| _ = runs.fetch_add(1, SeqCst));
        let mut components = ["a", "b", "c"].map(counted);
        // No system has room for such a stack.
        let thread = |component: &Component<'_>| match &*component.name {
            "b" => Builder::new().stack_size(usize::MAX / 4),
            _ => Builder::new(),
        };
        let error = run_together(&mut components, 1, thread).unwrap_err().to_string();
        assert!(error.starts_with("cannot start a thread for the component `b`: "), "{error}");
        assert_eq!(runs.load(SeqCst), 0);
        assert_eq!(run_together(&mut components, 1, |_| Builder::new()).unwrap().len(), 3);
        assert_eq!(runs.load(SeqCst), 3);
    }

    /// A meter that simulates 3 J per unit of size and fails after a given number of readings.
    struct Simulated<'a>(&'a AtomicUsize, usize);

    impl EnergyMeter for Simulated<'_> {
        fn name(&self) -> String {
            "simulated".to_owned()
        }
        fn joules(&mut self) -> Result<f64, MeterError> {
            self.1 = self.1.checked_sub(1).ok_or(MeterError { meter: self.name(), problem: "stopped".to_owned() })?;
            Ok(3.0 * self.0.load(SeqCst) as f64)
        }
    }

    #[test]
    fn energies_are_measured_by_a_meter_that_may_fail() {
        let done = &AtomicUsize::new(0);
        let component = || {
            Component::new("CPU:1", move |size| {
                done.fetch_add(size as usize, SeqCst);
            })
        };
        let measured = energy_profile(component(), &[10, 20], &Stop::default(), &mut Simulated(done, 99), 0.0).unwrap();
        assert_eq!(measured.profile.points(), [(10, 30.0), (20, 60.0)]);
        let error = energy_profile(component(), &[10], &Stop::default(), &mut Simulated(done, 3), 0.0).unwrap_err();
        assert!(matches!(error, MeasureError::Meter(_)), "{error}");
    }
}
