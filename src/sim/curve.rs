//! A quantity measured at several counts, with linear interpolation between them.

/// The behaviour of a curve beyond its last point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beyond {
    /// The curve keeps its last value.
    Stays,
    /// A rising curve continues with the slope between its last two points; a falling curve keeps its last value.
    Rises,
}

/// A positive quantity as a function of a count. For counts below the first point, it has the first point's value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Curve {
    /// The measured points, at least one, sorted by count.
    points: Vec<(f64, f64)>,
    beyond: Beyond,
}

impl Curve {
    /// Creates a curve with the same value everywhere.
    pub(crate) fn flat(value: f64) -> Self {
        Self { points: vec![(1.0, value)], beyond: Beyond::Stays }
    }

    /// Creates a curve through these points, which must be sorted by count.
    pub(crate) fn through(points: Vec<(f64, f64)>, beyond: Beyond) -> Self {
        assert!(!points.is_empty() && points.is_sorted_by(|a, b| a.0 < b.0), "points in ascending order");
        Self { points, beyond }
    }

    /// Returns the value at the first point.
    pub(crate) fn first(&self) -> f64 {
        self.points[0].1
    }

    /// Returns the same curve, divided by `value`.
    pub(crate) fn relative_to(mut self, value: f64) -> Self {
        self.points.iter_mut().for_each(|point| point.1 /= value);
        self
    }

    /// Returns the value at a count.
    pub(crate) fn at(&self, count: f64) -> f64 {
        let above = self.points.partition_point(|point| point.0 <= count);
        let last = self.points.len() - 1;
        match above {
            0 => self.points[0].1,
            above if above <= last => line(self.points[above - 1], self.points[above], count),
            _ if last > 0 && self.beyond == Beyond::Rises && self.points[last].1 > self.points[last - 1].1 => {
                line(self.points[last - 1], self.points[last], count)
            }
            _ => self.points[last].1,
        }
    }
}

fn line((x0, y0): (f64, f64), (x1, y1): (f64, f64), x: f64) -> f64 {
    y0 + (y1 - y0) * (x - x0) / (x1 - x0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curve_is_linear_between_points_and_continued_only_upwards() {
        let rising = Curve::through(vec![(1.0, 10.0), (5.0, 10.0), (9.0, 18.0)], Beyond::Rises);
        let values = [0.0, 1.0, 3.0, 5.0, 7.0, 9.0, 11.0].map(|count| rising.at(count));
        assert_eq!(values, [10.0, 10.0, 10.0, 10.0, 14.0, 18.0, 22.0]);
        let falling = Curve::through(vec![(1.0, 10.0), (2.0, 4.0)], Beyond::Rises);
        assert_eq!(falling.at(100.0), 4.0);
        assert_eq!(Curve::through(vec![(1.0, 1.0), (2.0, 2.0)], Beyond::Stays).at(9.0), 2.0);
        assert_eq!(rising.clone().relative_to(rising.first()).at(9.0), 1.8);
        assert_eq!(Curve::flat(3.0).at(1e9), 3.0);
    }
}
