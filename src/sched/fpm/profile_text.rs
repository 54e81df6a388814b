//! Profiles as text: TOML with one `[[profile]]` table per unit, which lets a run save profiles for later runs.

use super::{FpmError, Profile};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    unit: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    time_s: Vec<(u64, f64)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    energy_j: Vec<(u64, f64)>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    #[serde(default)]
    profile: Vec<Table>,
}

impl super::Known {
    /// Returns the profiles as TOML: one `[[profile]]` table per unit, with pairs of size and seconds and pairs of size
    /// and joules.
    ///
    /// ```
    /// use thalweg::sched::fpm::{Known, Profile};
    /// let time = vec![Profile::new("CPU:4", [(100, 0.5), (200, 1.25)])?, Profile::new("CUDA:1", [(100, 0.125)])?];
    /// let energy = vec![Profile::new("CPU:4", [(100, 20.0)])?];
    /// let known = Known { time, energy };
    /// assert_eq!(Known::from_text(&known.to_text())?, known);
    /// # Ok::<(), thalweg::sched::fpm::FpmError>(())
    /// ```
    pub fn to_text(&self) -> String {
        let mut text = Text { profile: Vec::new() };
        let of = |profiles: &[Profile], unit: &str| {
            let own = profiles.iter().find(|profile| profile.unit() == unit);
            own.map_or_else(Vec::new, |profile| profile.points().to_vec())
        };
        for profile in self.time.iter().chain(&self.energy) {
            let unit = profile.unit();
            if text.profile.iter().all(|table| table.unit != unit) {
                let (time_s, energy_j) = (of(&self.time, unit), of(&self.energy, unit));
                text.profile.push(Table { unit: unit.to_owned(), time_s, energy_j });
            }
        }
        toml::to_string(&text).expect("strings and numbers can be written as TOML")
    }

    /// Parses the output of [`to_text`](Self::to_text).
    ///
    /// # Errors
    /// Returns [`FpmError::Text`], with the line, if the text is not in that format or if two tables have the same
    /// unit, and the errors of [`Profile::new`].
    pub fn from_text(text: &str) -> Result<Self, FpmError> {
        let text: Text = toml::from_str(text).map_err(|error| FpmError::Text { problem: error.to_string() })?;
        let mut known = Self::default();
        for (number, Table { unit, time_s, energy_j }) in text.profile.into_iter().enumerate() {
            let twice = known.time.iter().chain(&known.energy).any(|profile| profile.unit() == unit);
            if twice {
                let problem = format!("table {} is the second of unit `{unit}`", number + 1);
                return Err(FpmError::Text { problem });
            }
            if time_s.is_empty() && energy_j.is_empty() {
                return Err(FpmError::NoPoints { unit });
            }
            for (points, profiles) in [(time_s, &mut known.time), (energy_j, &mut known.energy)] {
                if !points.is_empty() {
                    profiles.push(Profile::new(unit.clone(), points)?);
                }
            }
        }
        Ok(known)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Known;

    #[test]
    fn bad_texts_report_the_problem() {
        let said = |text: &str| Known::from_text(text).unwrap_err().to_string();
        let table = |points: &str| format!("[[profile]]\nunit = \"GPU:1\"\ntime_s = {points}\n");
        assert!(Known::from_text(&table("[[1, 2.0]]")).is_ok());
        assert!(said(&table("[[2, 2.0], [1, 1.0]]")).contains("GPU:1 has size 1 after 2"));
        assert!(said(&table("[[2, nan]]")).contains("GPU:1 has NaN at size 2"));
        assert!(said(&table("[]")).contains("GPU:1 has no point"));
        assert!(said(&table("[[1.5, 2.0]]")).contains("line 3"));
        assert!(said(&(table("[[1, 2.0]]") + &table("[[1, 2.0]]"))).contains("table 2 is the second of unit `GPU:1`"));
        assert!(said("colour = 3").contains("colour"));
        assert!(Known::from_text("").unwrap().time.is_empty());
    }
}
