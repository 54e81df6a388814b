//! Scheduler names as users write them: `name`, or `name:parameter=value,...`. All of them are parsed here.
//!
//! Schedulers and their parameters, with defaults in parentheses:
//! - `stealing`, `priority`, `static`, `guided-sizes`, `guided-runtime`: none
//! - `dynamic`: `chunk` (1): number of indices taken at once; `memo` (3): number of instances after which the best map
//!   so far is kept, 0 for never; `ahead` (0): maximum number of tasks a unit may hold when it takes another block
//! - `static-pcf`, `pcf-static`, `pcf-guided`: `pcf`: the PCF as a number; or `file`: a TOML file with one PCF per
//!   configuration; or `profile`: measure the PCF in the first instance (the default). `pcf-guided` also takes
//!   `literal`: use the sources' formula to the letter
//! - `clustered-guided`: `threshold` (0.25): relative change of a unit's speed that starts a new search; or `literal`:
//!   use the sources' search to the letter
//! - `adjacency`: `slack` (0.05): fraction by which its map may be slower than the 1-D answer
//! - `certified`: `slack` (0.01): fraction by which units may take longer to save copies between memories
//! - `fpm`: `objective` (`time`): `time`, `energy`, or `pareto`, the least energy within a `budget` in seconds or as a
//!   multiple of the fastest time (`1.5x`); `file`: profiles as text, which are otherwise learned
//! - `eft`, `bottom-level`, `auto`: `latency_ns` (10000), `bytes_per_s` (1e10): the link speed assumed until copies are
//!   measured
//!
//! All work distributions also have `team`: the number of CPU units to use, or `auto` for the fastest number.
//!
//! The keys of a PCF file are CPU unit configurations, as in González Tallada & Morancho 2024, table 4:
//! `"16:CPU:1" = 21.91`.

use super::any_distribution::distributed;
use super::fpm::{Budget, Fpm, Known, Objective};
use super::{
    Adjacency, Auto, BottomLevel, Certified, ClusteredGuided, ClusteredGuidedLiteral, Dynamic, Eft, GuidedRuntime,
    GuidedSizes, LinkEstimate, Model, Pcf, PcfGuided, PcfStatic, Policy, Priority, Static, StaticPcf, Stealing,
    TeamSize,
};
use crate::error::BuildError;
use std::collections::BTreeMap;

/// The names of all schedulers. None of them requires parameters.
///
/// ```
/// use thalweg::prelude::*;
/// for name in thalweg::sched::NAMES {
///     Runtime::builder().compute_units("1:CPU:1").scheduler(*name).build()?;
/// }
/// # Ok::<(), BuildError>(())
/// ```
pub const NAMES: &[&str] = &[
    "stealing",
    "dynamic",
    "static",
    "static-pcf",
    "pcf-static",
    "pcf-guided",
    "guided-sizes",
    "guided-runtime",
    "clustered-guided",
    "adjacency",
    "certified",
    "fpm",
    "eft",
    "bottom-level",
    "priority",
    "auto",
];

/// The facts, other than its parameters, that a scheduler may depend on.
pub(crate) struct Setting<'a> {
    /// Number of units in the machine.
    pub(crate) units: usize,
    /// The CPU part of the unit configuration, which is the key in a PCF file.
    pub(crate) cpu_units: String,
    /// Each unit's description by unit ID, as used in profiles: `CPU:4`.
    pub(crate) unit_names: Vec<String>,
    /// Known task times.
    pub(crate) model: Model,
    /// Known times and energies of units.
    pub(crate) profiles: Known,
    /// Reads a file into a string.
    pub(crate) read: &'a dyn Fn(&str) -> std::io::Result<String>,
}

/// Creates the policy that `text` names.
///
/// # Errors Returns an error if the name or a parameter does not exist, or if a value is out of range.
pub(crate) fn from_spec(text: &str, setting: Setting<'_>) -> Result<Box<dyn Policy>, BuildError> {
    let (name, rest) = text.split_once(':').unwrap_or((text, ""));
    let name = name.trim();
    let mut parameters = Parameters::read(name, rest)?;
    let p = &mut parameters;
    let policy: Box<dyn Policy> = match name {
        "stealing" => Box::new(Stealing::new(setting.units)),
        "priority" => Box::new(Priority::new()),
        "dynamic" => {
            let chunk = p.whole("chunk", Dynamic::CHUNK as u64, 1)?;
            let (memo, ahead) = (p.whole("memo", Dynamic::MEMO, 0)?, p.whole("ahead", 0, 0)?);
            Box::new(Dynamic::new(chunk as usize, memo, ahead as usize))
        }
        "static" => distributed(Static, p.team()?),
        "guided-sizes" => distributed(GuidedSizes, p.team()?),
        "guided-runtime" => distributed(GuidedRuntime::default(), p.team()?),
        "static-pcf" => distributed(StaticPcf::new(p.pcf(&setting)?), p.team()?),
        "pcf-static" => distributed(PcfStatic::new(p.pcf(&setting)?), p.team()?),
        "pcf-guided" => {
            let literal = p.flag("literal")?;
            let distribution = PcfGuided::new(p.pcf(&setting)?);
            distributed(if literal { distribution.literal() } else { distribution }, p.team()?)
        }
        "clustered-guided" if p.flag("literal")? => distributed(ClusteredGuidedLiteral::default(), p.team()?),
        "clustered-guided" => {
            let threshold = p.positive("threshold", ClusteredGuided::THRESHOLD, false)?;
            distributed(ClusteredGuided::new(threshold), p.team()?)
        }
        "adjacency" => distributed(Adjacency::new(p.positive("slack", Adjacency::SLACK, true)?), p.team()?),
        "certified" => distributed(Certified::new(p.positive("slack", Certified::SLACK, true)?), p.team()?),
        "fpm" => {
            let objective = p.objective()?;
            let known = p.known_profiles(&setting)?;
            let is_cpu = |name: &String| name.starts_with("CPU:");
            let (cpus, devices) = setting.unit_names.iter().cloned().partition(is_cpu);
            distributed(Fpm::new(objective).with_known(known, cpus, devices), p.team()?)
        }
        "eft" => Box::new(Eft::new(setting.model, p.link()?)),
        "auto" => Box::new(Auto::new(&setting.model, p.link()?)),
        "bottom-level" => Box::new(BottomLevel::new(setting.model, p.link()?)),
        _ => return Err(BuildError::UnknownScheduler { name: name.to_owned(), known: NAMES.to_vec() }),
    };
    parameters.end(policy)
}

/// The parameters after the colon. Each parameter is removed when it is used, so that unknown parameters remain.
struct Parameters<'a> {
    scheduler: &'a str,
    given: BTreeMap<&'a str, Option<&'a str>>,
    known: Vec<&'static str>,
}

impl<'a> Parameters<'a> {
    fn read(scheduler: &'a str, text: &'a str) -> Result<Self, BuildError> {
        let mut parameters = Self { scheduler, given: BTreeMap::new(), known: Vec::new() };
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, value) =
                part.split_once('=').map_or((part, None), |(name, value)| (name.trim(), Some(value.trim())));
            if parameters.given.insert(name, value).is_some() {
                return Err(parameters.error(name, "is given twice".to_owned()));
            }
        }
        Ok(parameters)
    }

    fn error(&self, parameter: &str, problem: String) -> BuildError {
        BuildError::SchedulerParameter {
            scheduler: self.scheduler.to_owned(),
            parameter: parameter.to_owned(),
            problem,
        }
    }

    fn take(&mut self, name: &'static str) -> Result<Option<&'a str>, BuildError> {
        self.known.push(name);
        match self.given.remove(name) {
            Some(None) => Err(self.error(name, format!("has no value; write {name}=..."))),
            given => Ok(given.flatten()),
        }
    }

    /// Returns whether a parameter that takes no value is present.
    fn flag(&mut self, name: &'static str) -> Result<bool, BuildError> {
        self.known.push(name);
        match self.given.remove(name) {
            Some(Some(_)) => Err(self.error(name, "takes no value".to_owned())),
            given => Ok(given.is_some()),
        }
    }

    /// Returns the requested number of CPU units for a distribution, if any.
    fn team(&mut self) -> Result<Option<TeamSize>, BuildError> {
        let Some(text) = self.take("team")? else { return Ok(None) };
        match text.parse() {
            _ if text == "auto" => Ok(Some(TeamSize::Auto)),
            Ok(units) if units > 0 => Ok(Some(TeamSize::Of(units))),
            _ => Err(self.error("team", format!("`{text}` is neither `auto` nor a number of CPU units"))),
        }
    }

    fn whole(&mut self, name: &'static str, default: u64, least: u64) -> Result<u64, BuildError> {
        let Some(text) = self.take(name)? else { return Ok(default) };
        match text.parse() {
            Ok(number) if number >= least => Ok(number),
            _ => Err(self.error(name, format!("`{text}` is not a whole number of at least {least}"))),
        }
    }

    fn positive(&mut self, name: &'static str, default: f64, or_zero: bool) -> Result<f64, BuildError> {
        let Some(text) = self.take(name)? else { return Ok(default) };
        let fits = |number: f64| number.is_finite() && (number > 0.0 || or_zero && number == 0.0);
        match text.parse() {
            Ok(number) if fits(number) => Ok(number),
            _ => Err(self.error(
                name,
                format!("`{text}` is not a number {}", if or_zero { "of at least 0" } else { "above 0" }),
            )),
        }
    }

    /// Returns the objective and its budget.
    fn objective(&mut self) -> Result<Objective, BuildError> {
        let objective = self.take("objective")?.unwrap_or("time");
        let budget = self.take("budget")?;
        match (objective, budget) {
            ("time", None) => Ok(Objective::Time),
            ("energy", None) => Ok(Objective::Energy),
            ("pareto", Some(text)) => {
                let (number, of_fastest) = text.strip_suffix('x').map_or((text, false), |number| (number, true));
                match number.parse() {
                    Ok(number) if of_fastest && number >= 1.0 && f64::is_finite(number) => {
                        Ok(Objective::Pareto(Budget::OfFastest(number)))
                    }
                    Ok(number) if !of_fastest && number > 0.0 && number.is_finite() => {
                        Ok(Objective::Pareto(Budget::Seconds(number)))
                    }
                    _ => {
                        let problem = "is neither seconds above 0 nor, with an x, a factor of at least 1";
                        Err(self.error("budget", format!("`{text}` {problem}")))
                    }
                }
            }
            ("pareto", None) => Err(self.error("budget", "is missing; write objective=pareto,budget=1.5x".to_owned())),
            ("time" | "energy", Some(_)) => Err(self.error("budget", "is valid only with objective=pareto".to_owned())),
            (other, _) => Err(self.error("objective", format!("`{other}` is not one of time, energy, pareto"))),
        }
    }

    /// Reads the profiles from the given file, or returns those learned by an earlier run.
    fn known_profiles(&mut self, setting: &Setting<'_>) -> Result<Known, BuildError> {
        let Some(path) = self.take("file")? else { return Ok(setting.profiles.clone()) };
        let known = self.profiles_from_file(path, setting)?;
        let named: Vec<&str> = known.time.iter().chain(&known.energy).map(|profile| profile.unit()).collect();
        if setting.unit_names.iter().any(|unit| named.contains(&unit.as_str())) {
            return Ok(known);
        }
        let (units, named) = (setting.unit_names.join(", "), named.join(", "));
        Err(self.error("file", format!("{path}: has profiles of {named}, but the units are {units}")))
    }

    #[cfg(feature = "sim")]
    fn profiles_from_file(&self, path: &str, setting: &Setting<'_>) -> Result<Known, BuildError> {
        let error = |problem: String| self.error("file", format!("{path}: {problem}"));
        let text = (setting.read)(path).map_err(|problem| error(problem.to_string()))?;
        Known::from_text(&text).map_err(|problem| error(problem.to_string()))
    }

    #[cfg(not(feature = "sim"))]
    fn profiles_from_file(&self, _: &str, _: &Setting<'_>) -> Result<Known, BuildError> {
        let problem = "this build cannot read files of profiles; try thalweg's feature `sim`".to_owned();
        Err(self.error("file", problem))
    }

    /// Returns the link speed to assume until copies are measured.
    fn link(&mut self) -> Result<LinkEstimate, BuildError> {
        let default = LinkEstimate::default();
        Ok(LinkEstimate {
            latency_ns: self.positive("latency_ns", default.latency_ns, true)?,
            bytes_per_s: self.positive("bytes_per_s", default.bytes_per_s, false)?,
        })
    }

    fn pcf(&mut self, setting: &Setting<'_>) -> Result<Pcf, BuildError> {
        if let Some(value) = self.given.remove("profile") {
            let alone = value.is_none() && !self.given.contains_key("pcf") && !self.given.contains_key("file");
            self.known.extend(["pcf", "file", "profile"]);
            return if alone {
                Ok(Pcf::Profiled)
            } else {
                Err(self.error("profile", "takes no value and excludes pcf and file".to_owned()))
            };
        }
        if self.given.contains_key("pcf") && self.given.contains_key("file") {
            return Err(self.error("file", "cannot be given together with pcf".to_owned()));
        }
        let file = self.take("file")?;
        if let Some(path) = file {
            return self.pcf_from_file(path, setting).map(Pcf::Given);
        }
        let given = self.given.contains_key("pcf");
        let pcf = self.positive("pcf", 1.0, false)?;
        self.known.push("profile");
        Ok(if given { Pcf::Given(pcf) } else { Pcf::Profiled })
    }

    #[cfg(feature = "sim")]
    fn pcf_from_file(&self, path: &str, setting: &Setting<'_>) -> Result<f64, BuildError> {
        let error = |problem: String| self.error("file", format!("{path}: {problem}"));
        let text = (setting.read)(path).map_err(|problem| error(problem.to_string()))?;
        let factors: BTreeMap<String, f64> = toml::from_str(&text).map_err(|problem| error(problem.to_string()))?;
        match factors.get(&setting.cpu_units) {
            Some(pcf) if pcf.is_finite() && *pcf > 0.0 => Ok(*pcf),
            Some(pcf) => Err(error(format!("\"{}\" = {pcf} is not a number above 0", setting.cpu_units))),
            None => {
                let known: Vec<_> = factors.keys().map(String::as_str).collect();
                Err(error(format!("has no PCF for {}; it has some for {}", setting.cpu_units, known.join(", "))))
            }
        }
    }

    #[cfg(not(feature = "sim"))]
    fn pcf_from_file(&self, _: &str, _: &Setting<'_>) -> Result<f64, BuildError> {
        let problem = "this build cannot read files of factors; try thalweg's feature `sim`, or pcf=...".to_owned();
        Err(self.error("file", problem))
    }

    /// Returns the policy if no parameter is left over.
    fn end(self, policy: Box<dyn Policy>) -> Result<Box<dyn Policy>, BuildError> {
        let Some(unknown) = self.given.keys().next() else { return Ok(policy) };
        let known = match self.known.as_slice() {
            [] => "it takes none".to_owned(),
            known => format!("try one of {}", known.join(", ")),
        };
        Err(self.error(unknown, format!("there is no such parameter; {known}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(text: &str) -> Result<Box<dyn Policy>, BuildError> {
        let files = |path: &str| match path {
            "pcf.toml" => Ok("\"16:CPU:1\" = 21.91\n\"32:CPU:1\" = 0.0\n".to_owned()),
            "bad.toml" => Ok("\"16:CPU:1\" = fast".to_owned()),
            "profiles.toml" => Ok("[[profile]]\nunit = \"GPU:1\"\ntime_s = [[1, 2.0]]\n".to_owned()),
            "others.toml" => Ok("[[profile]]\nunit = \"HIP:2\"\ntime_s = [[1, 2.0]]\n".to_owned()),
            _ => Err(std::io::Error::from(std::io::ErrorKind::NotFound)),
        };
        let cpu_units = "16:CPU:1".to_owned();
        let unit_names = ["CPU:1", "CPU:1", "GPU:1"].map(str::to_owned).into();
        let (model, profiles) = (Model::default(), Known::default());
        from_spec(text, Setting { units: 3, cpu_units, unit_names, model, profiles, read: &files })
    }

    /// Returns whether this build can read the file that `text` names, if any.
    fn can_be_read(text: &&str) -> bool {
        cfg!(feature = "sim") || !text.contains("file=")
    }

    #[test]
    #[cfg(not(feature = "sim"))]
    fn files_need_a_feature() {
        let message = build("static-pcf:file=pcf.toml").err().map(|error| error.to_string()).unwrap_or_default();
        assert!(message.contains("this build cannot read files of factors; try thalweg's feature `sim`"), "{message}");
    }

    #[test]
    fn every_name_creates_a_policy_of_that_name() {
        for name in NAMES {
            assert_eq!(build(name).unwrap().name(), *name);
        }
        let good = [
            "dynamic:chunk=2,memo=3,ahead=1",
            "dynamic: memo = 0",
            "static-pcf:pcf=4",
            "pcf-static:profile",
            "pcf-guided:pcf=0.5",
            "static-pcf:file=pcf.toml",
            "clustered-guided:threshold=0.5",
            "clustered-guided:literal",
            "clustered-guided:literal,team=auto",
            "static:team=3",
            "pcf-guided:literal,pcf=2",
            "pcf-guided:literal",
            "adjacency:slack=0",
            "certified:slack=0",
            "fpm:objective=energy,team=2",
            "fpm:objective=pareto,budget=0.25",
            "fpm:objective=pareto,budget=1.5x",
            "fpm:file=profiles.toml",
            "eft:latency_ns=0,bytes_per_s=2e9",
            "bottom-level:latency_ns=100",
            "auto:bytes_per_s=1e9",
        ];
        good.into_iter().filter(can_be_read).for_each(|text| drop(build(text).unwrap()));
    }

    #[test]
    fn errors_name_scheduler_and_parameter() {
        for (text, words) in [
            (
                "fastest",
                "cannot find scheduler `fastest`; try one of stealing, dynamic, static, static-pcf, pcf-static",
            ),
            ("", "cannot find scheduler ``"),
            ("stealing:chunk=2", "`stealing`: chunk: there is no such parameter; it takes none"),
            ("static:chunk=2", "`static`: chunk: there is no such parameter; try one of team"),
            ("static:team=0", "`static`: team: `0` is neither `auto` nor a number of CPU units"),
            ("eft:team=auto", "`eft`: team: there is no such parameter; try one of latency_ns, bytes_per_s"),
            ("dynamic:size=2", "`dynamic`: size: there is no such parameter; try one of chunk, memo, ahead"),
            ("dynamic:chunk=0", "`dynamic`: chunk: `0` is not a whole number of at least 1"),
            ("dynamic:memo=-1", "`dynamic`: memo: `-1` is not a whole number of at least 0"),
            ("dynamic:chunk", "`dynamic`: chunk: has no value; write chunk=..."),
            ("dynamic:chunk=1,chunk=2", "`dynamic`: chunk: is given twice"),
            ("static-pcf:pcf=0", "`static-pcf`: pcf: `0` is not a number above 0"),
            ("pcf-static:pcf=-3", "`pcf-static`: pcf: `-3` is not a number above 0"),
            ("pcf-guided:pcf=NaN", "`pcf-guided`: pcf: `NaN` is not a number above 0"),
            ("pcf-guided:pcf=inf", "`pcf-guided`: pcf: `inf` is not a number above 0"),
            ("static-pcf:profile,pcf=3", "`static-pcf`: profile: takes no value and excludes pcf and file"),
            ("static-pcf:pcf=3,file=pcf.toml", "`static-pcf`: file: cannot be given together with pcf"),
            ("static-pcf:file=none.toml", "`static-pcf`: file: none.toml: "),
            ("static-pcf:file=bad.toml", "`static-pcf`: file: bad.toml: TOML parse error at line 1"),
            ("clustered-guided:threshold=0", "`clustered-guided`: threshold: `0` is not a number above 0"),
            ("clustered-guided:literal=1", "`clustered-guided`: literal: takes no value"),
            (
                "clustered-guided:literal,threshold=2",
                "`clustered-guided`: threshold: there is no such parameter; try one of literal, team",
            ),
            ("adjacency:slack=-1", "`adjacency`: slack: `-1` is not a number of at least 0"),
            ("fpm:objective=speed", "`fpm`: objective: `speed` is not one of time, energy, pareto"),
            ("fpm:objective=pareto", "`fpm`: budget: is missing; write objective=pareto,budget=1.5x"),
            ("fpm:budget=1", "`fpm`: budget: is valid only with objective=pareto"),
            ("fpm:objective=pareto,budget=0.9x", "`fpm`: budget: `0.9x` is neither seconds above 0 nor"),
            ("fpm:objective=pareto,budget=-1", "`fpm`: budget: `-1` is neither"),
            ("fpm:file=none.toml", "`fpm`: file: none.toml: "),
            ("fpm:file=pcf.toml", "`fpm`: file: pcf.toml: not profiles: "),
            ("fpm:file=others.toml", "others.toml: has profiles of HIP:2, but the units are CPU:1, CPU:1, GPU:1"),
            ("eft:bytes_per_s=0", "`eft`: bytes_per_s: `0` is not a number above 0"),
        ] {
            // A conflict with `pcf` is reported before the file is read.
            if !can_be_read(&text) && !text.contains("pcf=") {
                continue;
            }
            let message = build(text).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(message.contains("scheduler `") && message.contains(words), "{text}: {message}");
        }
    }

    #[test]
    #[cfg(feature = "sim")]
    fn file_without_a_factor_for_the_configuration_is_refused() {
        let read = |_: &str| Ok("\"16:CPU:1\" = 21.91\n\"32:CPU:1\" = 0.0\n".to_owned());
        for (cpu_units, words) in [
            ("8:CPU:1", "x: has no PCF for 8:CPU:1; it has some for 16:CPU:1, 32:CPU:1"),
            ("32:CPU:1", "\"32:CPU:1\" = 0 is not a number above 0"),
        ] {
            let (cpu_units, unit_names) = (cpu_units.to_owned(), vec!["CPU:1".to_owned(); 3]);
            let (model, profiles) = (Model::default(), Known::default());
            let setting = Setting { units: 3, cpu_units, unit_names, model, profiles, read: &read };
            let message = from_spec("static-pcf:file=x", setting).err().map(|error| error.to_string());
            assert!(message.as_ref().is_some_and(|message| message.contains(words)), "{message:?}");
        }
    }
}
