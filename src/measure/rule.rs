//! Rule that decides when a mean is known precisely enough (Farrelly et al. 2024, §VI: Student's t, verified by
//! Pearson's chi-squared test).

use statrs::distribution::{ChiSquared, ContinuousCDF, Normal, StudentsT};

/// Minimum number of values per class for a meaningful chi-squared test.
const LEAST_IN_CLASS: usize = 5;
/// Significance level: values with a lower probability do not count as normally distributed.
const SIGNIFICANCE: f64 = 0.05;

/// Rule for when to stop repeating a run.
///
/// ```
/// use thalweg::measure::Stop;
/// let stop = Stop { seconds: 10.0, ..Stop::default() };
/// assert_eq!((stop.least, stop.most, stop.precision, stop.confidence), (3, 100, 0.05, 0.95));
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stop {
    /// Minimum number of runs per size; must be at least 2.
    pub least: usize,
    /// Maximum number of runs per size.
    pub most: usize,
    /// Time limit per size, in seconds. At least `least` runs are made in any case.
    pub seconds: f64,
    /// Required precision of the mean: half the width of its confidence interval, relative to the mean.
    pub precision: f64,
    /// Probability with which the confidence interval contains the mean, between 0 and 1.
    pub confidence: f64,
}

impl Default for Stop {
    fn default() -> Self {
        Self { least: 3, most: 100, seconds: 60.0, precision: 0.05, confidence: 0.95 }
    }
}

/// Summary of the measurements for one size.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Point {
    /// Size of the share.
    pub size: u64,
    /// Mean time in seconds, or mean energy in joules.
    pub mean: f64,
    /// Number of runs.
    pub runs: usize,
    /// Half the width of the mean's confidence interval, relative to the mean.
    pub precision: f64,
    /// Whether the values may come from a normal distribution, as the confidence interval assumes; `None` if there are
    /// too few values to tell.
    pub normal: Option<bool>,
}

/// The measured values for one size.
#[derive(Debug, Clone, Default)]
pub(super) struct Values(pub(super) Vec<f64>);

impl Values {
    fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len() as f64
    }

    fn deviation(&self) -> f64 {
        let mean = self.mean();
        let squares: f64 = self.0.iter().map(|value| (value - mean).powi(2)).sum();
        (squares / (self.0.len() as f64 - 1.0)).sqrt()
    }

    /// Returns half the width of the mean's confidence interval, relative to the mean; infinite for a single value.
    fn precision(&self, confidence: f64) -> f64 {
        let (n, deviation) = (self.0.len() as f64, self.deviation());
        if deviation == 0.0 {
            return 0.0;
        }
        let Ok(student) = StudentsT::new(0.0, 1.0, n - 1.0) else { return f64::INFINITY };
        student.inverse_cdf(f64::midpoint(1.0, confidence)) * deviation / n.sqrt() / self.mean()
    }

    /// Returns whether the mean is known precisely enough.
    pub(super) fn is_enough(&self, stop: &Stop) -> bool {
        self.0.len() >= stop.least.max(2) && self.precision(stop.confidence) <= stop.precision
    }

    /// Performs Pearson's test with equally probable classes. Estimating the mean and the deviation costs two degrees
    /// of freedom.
    fn is_normal(&self) -> Option<bool> {
        let (mean, deviation) = (self.mean(), self.deviation());
        let classes = (self.0.len() / LEAST_IN_CLASS).min(20);
        if classes < 4 {
            return None;
        }
        let normal = Normal::new(mean, deviation).ok()?; // fails for a deviation of 0
        let mut counts = vec![0.0; classes];
        for value in &self.0 {
            let class = (normal.cdf(*value) * classes as f64) as usize;
            counts[class.min(classes - 1)] += 1.0;
        }
        let expected = self.0.len() as f64 / classes as f64;
        let statistic: f64 = counts.iter().map(|count| (count - expected).powi(2) / expected).sum();
        let chi_squared = ChiSquared::new(classes as f64 - 3.0).ok()?;
        Some(1.0 - chi_squared.cdf(statistic) >= SIGNIFICANCE)
    }

    pub(super) fn point(&self, size: u64, stop: &Stop) -> Point {
        let (mean, precision, normal) = (self.mean(), self.precision(stop.confidence), self.is_normal());
        Point { size, mean, runs: self.0.len(), precision, normal }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_is_student_t() {
        // t(2; 0.975) = 4.3027: 10 ± 4.3027 · 1 / √3.
        let values = Values(vec![9.0, 10.0, 11.0]);
        assert!((values.precision(0.95) - 0.248_42).abs() < 1e-4, "{}", values.precision(0.95));
        assert!(!values.is_enough(&Stop::default()));
        assert!(values.is_enough(&Stop { precision: 0.25, ..Stop::default() }));
        assert!(!Values(vec![9.0]).is_enough(&Stop { least: 0, precision: 9.0, ..Stop::default() }));
        assert!(!Values(vec![9.0, 9.0]).is_enough(&Stop::default()), "three runs are the minimum");
        assert!(Values(vec![9.0; 3]).is_enough(&Stop::default()));
        assert!(Values(vec![0.0; 3]).is_enough(&Stop::default()));
    }

    #[test]
    fn non_normal_values_are_flagged_if_there_are_enough() {
        let quantiles = Normal::new(10.0, 1.0).unwrap();
        let normal = Values((1..100).map(|n| quantiles.inverse_cdf(f64::from(n) / 100.0)).collect());
        assert_eq!(normal.is_normal(), Some(true));
        let two_humps = Values((0..100).map(|n| f64::from(n % 2) + 1e-3 * f64::from(n)).collect());
        assert_eq!(two_humps.is_normal(), Some(false));
        assert_eq!(Values(vec![1.0, 2.0, 3.0]).is_normal(), None);
        assert_eq!(Values(vec![1.0; 50]).is_normal(), None, "no deviation, no distribution");
    }
}
