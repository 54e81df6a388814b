//! The order of the runs: repetitions of all contenders are interleaved, so that noise affects all of them equally.
//!
//! A contender's failure never stops a campaign: the campaign records the failure, leaves this contender out of the
//! case, and continues. The bench reports all failures when it ends.

use std::error::Error;
use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressStyle};

use super::child::{Contender, Failure, Launch};

/// Converts a bench's result into an exit status, and prints the error if there is one.
pub(crate) fn exit(result: Result<ExitCode, Box<dyn Error>>) -> ExitCode {
    result.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

/// The samples of one contender in one case, one per repetition.
#[derive(Debug)]
pub(crate) struct Series<S> {
    pub(crate) contender: &'static str,
    pub(crate) samples: Vec<S>,
}

/// The participating contenders and their failures.
#[derive(Debug)]
pub(crate) struct Campaign {
    contenders: Vec<(&'static str, Vec<Launch>)>,
    failures: Vec<String>,
}

impl Campaign {
    /// Creates a campaign of the contenders named in `chosen` (of all contenders if `chosen` is empty), and prints why
    /// any of them is left out.
    ///
    /// # Errors
    /// If no contender has one of the names.
    pub(crate) fn new(contenders: Vec<Contender>, chosen: &[String]) -> Result<Self, String> {
        let names: Vec<&str> = contenders.iter().map(|contender| contender.name).collect();
        if let Some(unknown) = chosen.iter().find(|name| !names.contains(&name.as_str())) {
            return Err(format!("no contender {unknown:?}: there are {}", names.join(", ")));
        }
        let mut ready = Vec::new();
        for Contender { name, launches } in contenders {
            if !chosen.is_empty() && !chosen.iter().any(|chosen| chosen == name) {
                continue;
            }
            match launches {
                Ok(launches) => ready.push((name, launches)),
                Err(why) => println!("skipped: {name}: {why}"),
            }
        }
        Ok(Self { contenders: ready, failures: Vec::new() })
    }

    /// Returns the names of the contenders that take part, in the order of the table's columns.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.contenders.iter().map(|(name, _)| *name).collect()
    }

    /// Excludes every contender with a launch for which `check` fails.
    pub(crate) fn require(&mut self, check: impl Fn(&str, &Launch) -> Result<(), Failure>) {
        let failures = &mut self.failures;
        self.contenders.retain(|(name, launches)| {
            let failure = launches.iter().find_map(|launch| check(name, launch).err());
            if let Some(failure) = &failure {
                failures.push(format!("{name}: {failure}"));
            }
            failure.is_none()
        });
    }

    /// Runs the case `label` `repetitions` times with every contender for which `offers` returns true. If a contender
    /// has several launches, the sample with the least `cost` counts in each repetition.
    pub(crate) fn run<S>(
        &mut self,
        label: &str,
        repetitions: usize,
        offers: impl Fn(&str) -> bool,
        measure: impl Fn(&str, &Launch) -> Result<S, Failure>,
        cost: impl Fn(&S) -> f64,
    ) -> Vec<Series<S>> {
        let racing: Vec<&(&'static str, Vec<Launch>)> =
            self.contenders.iter().filter(|(name, _)| offers(name)).collect();
        let mut results: Vec<Result<Vec<S>, Failure>> = racing.iter().map(|_| Ok(Vec::new())).collect();
        let progress = progress(label, racing.len() * repetitions);
        for repetition in 0..repetitions {
            for turn in 0..racing.len() {
                let index = (repetition + turn) % racing.len();
                let (name, launches) = racing[index];
                if let Ok(samples) = &mut results[index] {
                    match best(launches.iter().map(|launch| measure(name, launch)), &cost) {
                        Ok(sample) => samples.extend(sample),
                        Err(failure) => results[index] = Err(failure),
                    }
                }
                progress.inc(1);
            }
        }
        progress.finish_and_clear();
        let mut series = Vec::new();
        for ((contender, _), result) in racing.into_iter().zip(results) {
            match result {
                Ok(samples) => series.push(Series { contender, samples }),
                Err(failure) => self.failures.push(format!("{contender}, {label}: {failure}")),
            }
        }
        series
    }

    /// Prints the failures and returns the exit status of the bench, which is nonzero if there were any.
    pub(crate) fn conclude(&self) -> ExitCode {
        for failure in &self.failures {
            println!("failed: {failure}");
        }
        if self.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// Returns the sample with the least cost, or the first failure.
fn best<S>(samples: impl Iterator<Item = Result<S, Failure>>, cost: impl Fn(&S) -> f64) -> Result<Option<S>, Failure> {
    let samples = samples.collect::<Result<Vec<S>, Failure>>()?;
    Ok(samples.into_iter().min_by(|a, b| cost(a).total_cmp(&cost(b))))
}

/// Returns a progress bar. It is drawn only if standard error is a terminal, and only between runs.
fn progress(label: &str, runs: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:32} {wide_bar} {pos}/{len}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(runs as u64).with_style(style).with_message(label.to_owned())
}
