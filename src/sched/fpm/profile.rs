//! Profiles: the time or energy of one unit as a function of share size, interpolated between measured points.

use super::FpmError;

/// Largest size up to which `f64` distinguishes all sizes.
pub(super) const MOST: u64 = 1 << 53;
/// Weight of a new measurement at an existing point. It is high so that a profile follows a machine that changes.
const MEMORY: f64 = 0.5;

/// A time in seconds, or a dynamic energy in joules, as a function of size. The function passes through (0, 0) and the
/// measured points and is linear between them.
///
/// Beyond the last point, it continues with the slope between the last two points. If that slope is not positive, it
/// uses the slope from (0, 0) to the last point instead.
///
/// ```
/// use thalweg::sched::fpm::Profile;
/// let profile = Profile::new("CPU", [(100, 1.0), (200, 3.0)])?;
/// assert_eq!([50, 100, 150, 300].map(|size| profile.at(size)), [0.5, 1.0, 2.0, 5.0]);
/// assert!(profile.rises() && !profile.is_linear(0.05));
/// # Ok::<(), thalweg::sched::fpm::FpmError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    unit: String,
    points: Vec<(u64, f64)>,
}

impl Profile {
    /// Creates the profile of a unit. The name is used in messages and files.
    ///
    /// # Errors [`FpmError::NoPoints`], [`FpmError::Order`], [`FpmError::Size`], [`FpmError::Value`]: there is no
    /// point, sizes do not ascend from 1, or a value is not a finite number of at least 0.
    pub fn new(unit: impl Into<String>, points: impl Into<Vec<(u64, f64)>>) -> Result<Self, FpmError> {
        let (unit, points) = (unit.into(), points.into());
        let mut before = 0;
        for &(size, value) in &points {
            if size <= before {
                return Err(FpmError::Order { unit, size, before });
            }
            if size > MOST {
                return Err(FpmError::Size { size });
            }
            if !(value.is_finite() && value >= 0.0) {
                return Err(FpmError::Value { unit, size, value });
            }
            before = size;
        }
        if points.is_empty() { Err(FpmError::NoPoints { unit }) } else { Ok(Self { unit, points }) }
    }

    /// Returns the unit's name.
    pub fn unit(&self) -> &str {
        &self.unit
    }

    /// Returns the points, sorted by size.
    pub fn points(&self) -> &[(u64, f64)] {
        &self.points
    }

    /// Returns the value of a share of this size.
    pub fn at(&self, size: u64) -> f64 {
        let above = self.points.partition_point(|point| point.0 < size);
        match self.points.get(above) {
            Some(point) if point.0 == size => point.1,
            _ => {
                let (x, y) = self.before(above);
                (y + self.slope(above) * (size - x) as f64).max(0.0)
            }
        }
    }

    /// Returns the point before the point with this index.
    fn before(&self, number: usize) -> (u64, f64) {
        number.checked_sub(1).map_or((0, 0.0), |before| self.points[before])
    }

    /// Returns the slope of the segment that ends at the point with this index, or the slope beyond the last point.
    fn slope(&self, number: usize) -> f64 {
        let between = |(x0, y0): (u64, f64), (x1, y1): (u64, f64)| (y1 - y0) / (x1 - x0) as f64;
        match self.points.get(number) {
            Some(point) => between(self.before(number), *point),
            None => {
                let last = self.before(number);
                let slope = between(self.before(number - 1), last);
                if slope > 0.0 { slope } else { between((0, 0.0), last) }
            }
        }
    }

    /// Returns the first size whose value is smaller than that of the previous size.
    pub(super) fn first_fall(&self) -> Option<u64> {
        self.points.windows(2).find(|pair| pair[1].1 < pair[0].1).map(|pair| pair[1].0)
    }

    /// Returns whether a larger share never has a smaller value.
    pub fn rises(&self) -> bool {
        self.first_fall().is_none()
    }

    /// Returns whether one line through (0, 0) passes within this fraction of every point's value.
    pub fn is_linear(&self, tolerance: f64) -> bool {
        let (sizes, values) = self.points.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0 as f64, y + point.1));
        let slope = values / sizes;
        self.points.iter().all(|(size, value)| (value - slope * *size as f64).abs() <= tolerance * value)
    }

    /// Returns the largest share, at most `most`, whose value does not exceed `value`. The profile must rise.
    pub(super) fn largest_within(&self, value: f64, most: u64) -> u64 {
        let above = self.points.partition_point(|point| point.1 <= value);
        let (x, y) = self.before(above);
        let more = ((value - y) / self.slope(above)).max(0.0); // a slope of 0 gives infinity, and 0 / 0 gives NaN
        let more = if more.is_nan() { u64::MAX } else { more as u64 };
        let mut size = x.saturating_add(more).min(most);
        // Corrects rounding errors.
        while size > 0 && self.at(size) > value {
            size -= 1;
        }
        while size < most && self.at(size + 1) <= value {
            size += 1;
        }
        size
    }

    /// Records that a share of this size took `value`: adds a point, or moves an existing point halfway.
    ///
    /// ```
    /// use thalweg::sched::fpm::Profile;
    /// let mut profile = Profile::new("CPU", [(100, 1.0)])?;
    /// profile.refine(200, 3.0);
    /// profile.refine(100, 2.0);
    /// assert_eq!(profile.points(), [(100, 1.5), (200, 3.0)]);
    /// # Ok::<(), thalweg::sched::fpm::FpmError>(())
    /// ```
    pub fn refine(&mut self, size: u64, value: f64) {
        if !(1..=MOST).contains(&size) || !value.is_finite() || value < 0.0 {
            return;
        }
        match self.points.binary_search_by_key(&size, |point| point.0) {
            Ok(at) => self.points[at].1 += MEMORY * (value - self.points[at].1),
            Err(at) => self.points.insert(at, (size, value)),
        }
    }

    /// Returns the same profile under another name.
    #[must_use]
    pub fn named(mut self, unit: impl Into<String>) -> Self {
        self.unit = unit.into();
        self
    }

    /// Returns the profile with its sizes multiplied by a factor.
    pub(super) fn scaled(mut self, factor: f64) -> Self {
        self.points
            .iter_mut()
            .for_each(|point| point.0 = (point.0 as f64 * factor).round().clamp(1.0, MOST as f64) as u64);
        self.points.dedup_by_key(|point| point.0);
        self
    }

    /// Returns the energy in joules of a unit that uses this many watts during the profile's seconds.
    ///
    /// ```
    /// use thalweg::sched::fpm::Profile;
    /// let time = Profile::new("CPU", [(100, 2.0)])?;
    /// assert_eq!(time.at_watts(30.0).at(100), 60.0);
    /// # Ok::<(), thalweg::sched::fpm::FpmError>(())
    /// ```
    #[must_use]
    pub fn at_watts(&self, watts: f64) -> Self {
        let mut energy = self.clone();
        energy.points.iter_mut().for_each(|point| point.1 *= watts);
        energy
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::fpm::testing::{linear, table, tables};
    use proptest::prelude::*;

    #[test]
    fn bad_points_are_refused_with_unit_and_size() {
        let said = |points: &[(u64, f64)]| Profile::new("GPU 1", points).unwrap_err().to_string();
        assert!(said(&[]).starts_with("the profile of GPU 1 has no point"));
        assert!(said(&[(2, 1.0), (1, 1.0)]).contains("GPU 1 has size 1 after 2"));
        assert!(said(&[(2, 1.0), (2, 1.0)]).contains("size 2 after 2"));
        assert!(said(&[(0, 1.0)]).contains("size 0 after 0"));
        assert!(said(&[(1, 1.0), (7, f64::NAN)]).contains("GPU 1 has NaN at size 7"));
        assert!(said(&[(7, f64::INFINITY)]).contains("inf at size 7"));
        assert!(said(&[(7, -1.0)]).contains("-1 at size 7"));
        assert!(said(&[(u64::MAX, 1.0)]).contains("larger unit"));
    }

    #[test]
    fn values_never_fall_beyond_the_last_point() {
        assert_eq!(linear("a", 3.0).at(7), 21.0);
        let falls = table("a", &[4.0, 2.0]);
        assert_eq!([1, 2, 4].map(|size| falls.at(size)), [4.0, 2.0, 4.0]);
        let stays = table("a", &[4.0, 4.0]);
        assert_eq!(stays.at(4), 8.0);
        assert_eq!(table("a", &[0.0]).at(1 << 50), 0.0);
        assert_eq!(linear("a", 1.0).at(0), 0.0);
    }

    #[test]
    fn profiles_are_linear_on_a_line_through_the_origin() {
        assert!(linear("a", 3.0).is_linear(0.0) && table("a", &[1.0, 2.04, 2.97]).is_linear(0.05));
        assert!(!table("a", &[1.0, 3.0]).is_linear(0.05) && !table("a", &[2.0, 3.0]).is_linear(0.05));
    }

    #[test]
    fn invalid_measurements_refine_nothing() {
        let mut profile = linear("a", 1.0);
        for (size, value) in [(0, 1.0), (3, f64::NAN), (3, -1.0), (u64::MAX, 1.0)] {
            profile.refine(size, value);
        }
        assert_eq!(profile, linear("a", 1.0));
    }

    proptest! {
        #[test]
        fn largest_share_within_a_value_is_found(profiles in tables(true), value in -1.0..50.0f64, most in 0u64..30) {
            for profile in profiles {
                let largest = (0..=most).rev().find(|size| profile.at(*size) <= value).unwrap_or(0);
                prop_assert_eq!(profile.largest_within(value, most), largest);
            }
        }
    }
}
