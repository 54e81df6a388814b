//! Means with their confidence intervals.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// A mean and half of its 95 % confidence interval.
pub(crate) type Mean = (f64, f64);

/// Computes the mean of values with its confidence interval, by Student's distribution; the interval of a single value
/// is infinite.
pub(crate) fn mean(values: &[f64]) -> Mean {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let Ok(student) = StudentsT::new(0.0, 1.0, n - 1.0) else { return (mean, f64::INFINITY) };
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, student.inverse_cdf(0.975) * (variance / n).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_follow_the_number_of_values() {
        // t(2; 0.975) = 4.3027 and t(29; 0.975) = 2.0452.
        let near = |one: Mean, other: Mean| (one.0 - other.0).abs() < 1e-9 && (one.1 - other.1).abs() < 1e-4;
        assert!(near(mean(&[9.0, 10.0, 11.0]), (10.0, 4.3027 / 3.0_f64.sqrt())));
        let thirty: Vec<f64> = (0..30).map(|n| f64::from(n % 2)).collect();
        assert!(near(mean(&thirty), (0.5, 2.0452 * (7.5_f64 / 29.0 / 30.0).sqrt())));
        assert_eq!(mean(&[9.0]), (9.0, f64::INFINITY));
    }
}
