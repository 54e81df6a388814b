//! Bounded symbolic integers, which represent array indices.
//!
//! A form is a sum of multiples of loop variables and a rest. Invariant: unless the form is unknown, for all values
//! of the variables within their ranges, the form's value is within `all`, and the difference between the value and
//! the sum of the multiples is within `rest`. No computation overflows: if a result would overflow, the form is
//! unknown instead.

/// The number of loop variables that forms track separately. Any further variables become part of the rest.
pub(super) const MOST_LOOPS: usize = 8;

/// An interval, given by its smallest and largest value. The interval is empty if the smallest value exceeds the
/// largest, as for a loop without iterations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Interval {
    pub(super) least: i128,
    pub(super) most: i128,
}

impl Interval {
    const fn of(value: i128) -> Self {
        Self { least: value, most: value }
    }

    pub(super) const fn new(least: i128, most: i128) -> Self {
        Self { least, most }
    }

    pub(super) const fn is_empty(self) -> bool {
        self.least > self.most
    }

    /// Returns the number of values.
    pub(super) fn width(self) -> i128 {
        (self.most - self.least + 1).max(0)
    }

    fn ends(self, other: Self, f: impl Fn(i128, i128) -> Option<i128>) -> Option<Self> {
        let ends = [
            f(self.least, other.least)?,
            f(self.least, other.most)?,
            f(self.most, other.least)?,
            f(self.most, other.most)?,
        ];
        Some(Self::new(*ends.iter().min()?, *ends.iter().max()?))
    }
}

/// A symbolic integer; see the module documentation.
#[derive(Debug, Clone, Copy)]
pub struct Form {
    /// `None` if nothing is known.
    pub(super) known: Option<Known>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) multiples: [i128; MOST_LOOPS],
    pub(super) rest: Interval,
    pub(super) all: Interval,
}

/// An integer type.
pub trait Whole: Copy {
    /// The type's smallest and largest value.
    const ENDS: (i128, i128);
    /// Returns the value.
    fn whole(self) -> i128;
    /// Converts a value that this type can represent.
    fn of_whole(value: i128) -> Self;
}

macro_rules! whole {
    ($($t:ident)*) => {$(
        impl Whole for $t {
            const ENDS: (i128, i128) = ($t::MIN as i128, $t::MAX as i128);
            fn whole(self) -> i128 {
                self as i128
            }
            fn of_whole(value: i128) -> Self {
                value as $t
            }
        }
    )*};
}

whole! { i32 u32 i64 u64 isize usize }

impl Form {
    pub const UNKNOWN: Self = Self { known: None };

    /// Creates a form with a known value.
    pub fn of<T: Whole>(value: T) -> Self {
        Self::within(Interval::of(value.whole()))
    }

    pub(super) fn within(all: Interval) -> Self {
        Self { known: Some(Known { multiples: [0; MOST_LOOPS], rest: all, all }) }
    }

    /// Creates the form of the variable of the loop with this index.
    pub(super) fn variable(number: usize, all: Interval) -> Self {
        let mut known = Known { multiples: [0; MOST_LOOPS], rest: all, all };
        if number < MOST_LOOPS {
            known.multiples[number] = 1;
            known.rest = Interval::of(0);
        }
        Self { known: Some(known) }
    }

    pub(super) fn all(self) -> Option<Interval> {
        self.known.map(|known| known.all)
    }

    fn both(self, other: Self, f: impl FnOnce(Known, Known) -> Option<Known>) -> Self {
        Self { known: self.known.zip(other.known).and_then(|(a, b)| f(a, b)) }
    }

    /// Returns the form if type `T` can represent all of its values, and an unknown form otherwise, because
    /// arithmetic in the type would overflow.
    #[must_use]
    pub fn fit<T: Whole>(self) -> Self {
        let fits = |known: &Known| known.all.is_empty() || T::ENDS.0 <= known.all.least && known.all.most <= T::ENDS.1;
        Self { known: self.known.filter(fits) }
    }

    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.linear(other, i128::checked_add)
    }

    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        self.linear(other, i128::checked_sub)
    }

    fn linear(self, other: Self, op: fn(i128, i128) -> Option<i128>) -> Self {
        self.both(other, |a, b| {
            let mut multiples = a.multiples;
            for (multiple, other) in multiples.iter_mut().zip(b.multiples) {
                *multiple = op(*multiple, other)?;
            }
            Some(Known { multiples, rest: a.rest.ends(b.rest, op)?, all: either(a.all, b.all, |x, y| x.ends(y, op))? })
        })
    }

    #[must_use]
    pub fn times(self, other: Self) -> Self {
        self.both(other, |a, b| {
            let all = either(a.all, b.all, |x, y| x.ends(y, i128::checked_mul))?;
            let constant = |known: &Known| {
                (known.multiples == [0; MOST_LOOPS] && known.rest.least == known.rest.most).then_some(known.rest.least)
            };
            let (factor, form) = match (constant(&a), constant(&b)) {
                (Some(factor), _) => (factor, b),
                (_, Some(factor)) => (factor, a),
                _ => return Some(Known { multiples: [0; MOST_LOOPS], rest: all, all }),
            };
            let mut multiples = form.multiples;
            for multiple in &mut multiples {
                *multiple = multiple.checked_mul(factor)?;
            }
            Some(Known { multiples, rest: form.rest.ends(Interval::of(factor), i128::checked_mul)?, all })
        })
    }

    /// Returns the quotient. It is unknown unless the divisor is positive.
    #[must_use]
    pub fn over(self, other: Self) -> Self {
        self.both(other, |a, b| {
            if a.all.is_empty() || b.all.is_empty() {
                return Some(nothing());
            }
            let all = if b.all.least > 0 { a.all.ends(b.all, i128::checked_div)? } else { return None };
            Some(Known { multiples: [0; MOST_LOOPS], rest: all, all })
        })
    }

    /// Returns the remainder. It is unknown unless the dividend is non-negative and the divisor is positive.
    #[must_use]
    pub fn modulo(self, other: Self) -> Self {
        self.both(other, |a, b| {
            if a.all.is_empty() || b.all.is_empty() {
                return Some(nothing());
            }
            if a.all.least >= 0 && a.all.most < b.all.least {
                return Some(a);
            }
            let all = Interval::new(0, a.all.most.min(b.all.most - 1));
            (b.all.least > 0 && a.all.least >= 0).then_some(Known { multiples: [0; MOST_LOOPS], rest: all, all })
        })
    }

    #[must_use]
    pub fn least(self, other: Self) -> Self {
        self.ends(other, |a, b| Interval::new(a.least.min(b.least), a.most.min(b.most)))
    }

    #[must_use]
    pub fn largest(self, other: Self) -> Self {
        self.ends(other, |a, b| Interval::new(a.least.max(b.least), a.most.max(b.most)))
    }

    /// Returns a form that includes the values of both forms.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        self.ends(other, |a, b| Interval::new(a.least.min(b.least), a.most.max(b.most)))
    }

    fn ends(self, other: Self, f: impl FnOnce(Interval, Interval) -> Interval) -> Self {
        self.both(other, |a, b| {
            let all = either(a.all, b.all, |x, y| Some(f(x, y)))?;
            Some(Known { multiples: [0; MOST_LOOPS], rest: all, all })
        })
    }
}

/// Returns the form of a value that is never computed.
fn nothing() -> Known {
    let none = Interval::new(0, -1);
    Known { multiples: [0; MOST_LOOPS], rest: none, all: none }
}

fn either(a: Interval, b: Interval, f: impl FnOnce(Interval, Interval) -> Option<Interval>) -> Option<Interval> {
    if a.is_empty() || b.is_empty() { Some(Interval::new(0, -1)) } else { f(a, b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn row_major_index_is_exact() {
        let (i, j) = (Form::variable(0, Interval::new(1, 6)), Form::variable(1, Interval::new(0, 9)));
        let index = i.times(Form::of(10usize)).plus(j).fit::<usize>();
        let known = index.known.unwrap();
        assert_eq!((known.all, known.multiples[..2].to_vec()), (Interval::new(10, 69), vec![10, 1]));
        assert_eq!(known.rest, Interval::new(0, 0));
        assert!(i.minus(Form::of(2usize)).fit::<usize>().known.is_none(), "it may be negative");
        assert!(i.times(Form::of(i64::MAX)).fit::<i64>().known.is_none());
    }

    proptest! {
        /// For all values of the variables, the value is within the bounds.
        #[test]
        fn values_are_within_bounds(
            (a, b) in (-20i64..20, 0i64..10),
            (c, d) in (-20i64..20, 0i64..10),
            factor in -5i64..5,
            by in 1i64..7,
            steps in proptest::collection::vec(0u8..7, 1..5),
        ) {
            let (x, y) = (Interval::new(a.into(), (a + b).into()), Interval::new(c.into(), (c + d).into()));
            let (form_x, form_y) = (Form::variable(0, x), Form::variable(1, y));
            let form = steps.iter().fold(form_x, |form, step| match step {
                0 => form.plus(form_y),
                1 => form.minus(form_y),
                2 => form.times(Form::of(factor)),
                3 => form.times(form_y),
                4 => form.over(Form::of(by)),
                5 => form.largest(form_y),
                _ => form.modulo(Form::of(by)),
            });
            let Some(known) = form.known else { return Ok(()) };
            for x in a..=a + b {
                for y in c..=c + d {
                    let value = steps.iter().fold(x, |value, step| match step {
                        0 => value + y,
                        1 => value - y,
                        2 => value * factor,
                        3 => value * y,
                        4 => value / by,
                        5 => value.max(y),
                        _ => value % by,
                    });
                    let value = i128::from(value);
                    prop_assert!(known.all.least <= value && value <= known.all.most, "{value} is not in {:?}", known.all);
                    let rest = value - known.multiples[0] * i128::from(x) - known.multiples[1] * i128::from(y);
                    prop_assert!(known.rest.least <= rest && rest <= known.rest.most, "{rest} is not in {:?}", known.rest);
                }
            }
        }
    }
}
