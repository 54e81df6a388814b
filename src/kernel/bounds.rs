//! Bounds on the buffer elements that a kernel may touch. The kernel's head declares the bounds, and every launch
//! compares them with the task's regions.
//!
//! A wrong count is the most common mistake in launching a kernel, and would make it write into other tasks' memory.
//! So a kernel's head declares, for each buffer, the largest box that the kernel touches, relative to the first
//! element of the region: `n` elements; `[rows][columns]`, contiguous with the last index varying fastest; or
//! `[rows : stride][columns]`, with rows `stride` elements apart. Each number is an expression built with `+`, `-`,
//! `*` and brackets from literals, the program's macros, and the kernel's integer parameters, whether they come
//! before or after the buffer in the head.
//!
//! Each launch checks that every element of the box belongs to the region; elements in the gaps between the region's
//! rows do not. A launch cannot check that the kernel's code honours its head; for that,
//! [`Program::new`](super::Program::new) relies on the author's promise.
//!
//! Invariants: an extent or a stride that is negative, or does not fit into 64 bits, is refused; a box that is empty
//! in one dimension is empty; steps are stored in the order of evaluation and never need more than [`DEEPEST`]
//! intermediate values at once.

use super::cursor::Cursor;
use super::signature::{ElementType, MOST_PARAMETERS, Parameter, Signature, SignatureError, equal};
use super::value::{ArgumentValue, Value};
use crate::error::DeviceError;
use crate::region::MAX_DIMS;
use arrayvec::ArrayVec;

/// Maximum total number of steps in all bounds of one kernel.
const MOST_STEPS: usize = 192;

/// Maximum number of intermediate values that one expression may need at once.
const DEEPEST: usize = 8;

/// One step of an expression; it comes after the steps that compute its operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Number(i64),
    Scalar(u8, ElementType),
    Add,
    Subtract,
    Multiply,
}

/// One dimension of a box. The fields are the end positions of the dimension's expressions in the list of steps; each
/// expression begins where the previous one ends.
#[derive(Debug, Clone, Copy)]
struct Extent {
    extent_end: u8,
    /// Equal to `extent_end` if no stride is given, which means that the elements are contiguous.
    stride_end: u8,
}

/// The box of one buffer.
#[derive(Debug, Clone, Copy)]
struct Footprint {
    first_step: u8,
    extents: [Extent; MAX_DIMS],
    count: usize,
}

/// The boxes of all buffers of a kernel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    steps: [Step; MOST_STEPS],
    used: usize,
    /// The box of each buffer; empty for other parameters.
    footprints: [Footprint; MOST_PARAMETERS],
}

/// The names that an expression may use, and the position of each buffer's box in the text.
pub(super) struct Scope<'a> {
    pub(super) places: &'a [Cursor; MOST_PARAMETERS],
    pub(super) signature: &'a Signature,
    pub(super) defines: &'a [(&'static str, i64)],
}

impl Scope<'_> {
    /// Resolves a word to an integer parameter, a macro, or a literal.
    const fn find(&self, word: &str) -> Option<Step> {
        if let Some(n) = self.signature.position(word) {
            return match self.signature.parameters()[n] {
                Parameter::Scalar(ElementType::F64 | ElementType::F32) | Parameter::Read(_) | Parameter::Write(_) => {
                    None
                }
                Parameter::Scalar(element) => Some(Step::Scalar(n as u8, element)),
            };
        }
        let mut n = 0;
        while n < self.defines.len() {
            if equal(self.defines[n].0, word) {
                return Some(Step::Number(self.defines[n].1));
            }
            n += 1;
        }
        let (digits, mut value, mut i) = (word.as_bytes(), 0, 0);
        while i < digits.len() {
            if !digits[i].is_ascii_digit() || i == 18 {
                return None;
            }
            value = value * 10 + (digits[i] - b'0') as i64;
            i += 1;
        }
        if digits.is_empty() { None } else { Some(Step::Number(value)) }
    }
}

impl Bounds {
    const NOTHING: Footprint =
        Footprint { first_step: 0, extents: [Extent { extent_end: 0, stride_end: 0 }; MAX_DIMS], count: 0 };

    /// The bounds of a kernel without buffers.
    pub(super) const NONE: Self =
        Self { steps: [Step::Add; MOST_STEPS], used: 0, footprints: [Self::NOTHING; MOST_PARAMETERS] };

    /// Parses the boxes of all buffers.
    pub(super) const fn parse(scope: &Scope<'_>) -> Result<Self, SignatureError> {
        let mut bounds = Self::NONE;
        let parameters = scope.signature.parameters();
        let mut n = 0;
        while n < parameters.len() {
            if !matches!(parameters[n], Parameter::Scalar(_)) {
                let mut cursor = scope.places[n];
                let footprint = bounds.footprint(&mut cursor, scope);
                match footprint {
                    Some(footprint) if cursor.take(b')') => bounds.footprints[n] = footprint,
                    _ => return Err(SignatureError::Bounds { parameter: scope.signature.names[n] }),
                }
            }
            n += 1;
        }
        Ok(bounds)
    }

    const fn footprint(&mut self, cursor: &mut Cursor, scope: &Scope<'_>) -> Option<Footprint> {
        let mut footprint = Self::NOTHING;
        footprint.first_step = self.used as u8;
        if !cursor.take(b'[') {
            if !self.sum(cursor, scope, 0) {
                return None;
            }
            footprint.extents[0] = Extent { extent_end: self.used as u8, stride_end: self.used as u8 };
            footprint.count = 1;
            return Some(footprint);
        }
        loop {
            if footprint.count == MAX_DIMS || !self.sum(cursor, scope, 0) {
                return None;
            }
            let extent_end = self.used as u8;
            if (cursor.take(b':') && !self.sum(cursor, scope, 0)) || !cursor.take(b']') {
                return None;
            }
            footprint.extents[footprint.count] = Extent { extent_end, stride_end: self.used as u8 };
            footprint.count += 1;
            if !cursor.take(b'[') {
                return Some(footprint);
            }
        }
    }

    /// Parses a sum while `waiting` earlier values are still pending. Returns whether the cursor was at a sum.
    const fn sum(&mut self, cursor: &mut Cursor, scope: &Scope<'_>, waiting: usize) -> bool {
        if !self.product(cursor, scope, waiting) {
            return false;
        }
        loop {
            let step = match (cursor.take(b'+'), cursor.take(b'-')) {
                (true, false) => Step::Add,
                (false, true) => Step::Subtract,
                (false, false) => return true,
                (true, true) => return false,
            };
            if !self.product(cursor, scope, waiting + 1) || !self.push(step) {
                return false;
            }
        }
    }

    const fn product(&mut self, cursor: &mut Cursor, scope: &Scope<'_>, waiting: usize) -> bool {
        if !self.value(cursor, scope, waiting) {
            return false;
        }
        while cursor.take(b'*') {
            if !self.value(cursor, scope, waiting + 1) || !self.push(Step::Multiply) {
                return false;
            }
        }
        true
    }

    const fn value(&mut self, cursor: &mut Cursor, scope: &Scope<'_>, waiting: usize) -> bool {
        if waiting == DEEPEST {
            return false;
        }
        if cursor.take(b'(') {
            return self.sum(cursor, scope, waiting) && cursor.take(b')');
        }
        match scope.find(cursor.word()) {
            Some(step) => self.push(step),
            None => false,
        }
    }

    const fn push(&mut self, step: Step) -> bool {
        let fits = self.used < MOST_STEPS;
        if fits {
            self.steps[self.used] = step;
            self.used += 1;
        }
        fits
    }
}

/// A box, as pairs of extent and stride, outermost dimension first.
type Dimensions = ArrayVec<(usize, usize), MAX_DIMS>;

impl Bounds {
    /// Checks that each region contains the elements that the kernel may touch.
    ///
    /// # Errors
    /// Returns [`DeviceError::Bounds`] for the first region that does not contain them.
    pub(super) fn check(
        &self,
        kernel: &str,
        names: &[&'static str; MOST_PARAMETERS],
        arguments: &[ArgumentValue],
    ) -> Result<(), DeviceError> {
        for (n, ArgumentValue(value)) in arguments.iter().enumerate() {
            let Value::Memory { extents, strides, .. } = value else { continue };
            let touched = self.evaluate(&self.footprints[n], arguments);
            if !touched.as_ref().is_some_and(|touched| holds(extents, strides, touched)) {
                return Err(refusal(kernel, names[n], touched.as_ref(), &merged(extents, strides)));
            }
        }
        Ok(())
    }

    /// Returns the box for these arguments, or `None` if any of its numbers is negative or overflows.
    fn evaluate(&self, footprint: &Footprint, arguments: &[ArgumentValue]) -> Option<Dimensions> {
        let mut declared = ArrayVec::<(usize, Option<usize>), MAX_DIMS>::new();
        let mut begin = footprint.first_step.into();
        for dimension in &footprint.extents[..footprint.count] {
            let (extent_end, stride_end) = (dimension.extent_end.into(), dimension.stride_end.into());
            let extent = self.number(begin..extent_end, arguments)?;
            let stride =
                if stride_end > extent_end { Some(self.number(extent_end..stride_end, arguments)?) } else { None };
            declared.push((extent, stride));
            begin = stride_end;
        }
        let mut dimensions = Dimensions::new();
        let mut side_by_side = 1;
        for (extent, stride) in declared.into_iter().rev() {
            let stride = stride.unwrap_or(side_by_side);
            dimensions.insert(0, (extent, stride));
            side_by_side = stride.checked_mul(extent)?;
        }
        Some(dimensions)
    }

    fn number(&self, steps: std::ops::Range<usize>, arguments: &[ArgumentValue]) -> Option<usize> {
        let mut values = ArrayVec::<i64, DEEPEST>::new();
        for step in &self.steps[steps] {
            let value = match step {
                Step::Number(number) => *number,
                Step::Scalar(n, element) => integer(&arguments[usize::from(*n)], *element)?,
                Step::Add | Step::Subtract | Step::Multiply => {
                    let (b, a) = (values.pop()?, values.pop()?);
                    match step {
                        Step::Add => a.checked_add(b)?,
                        Step::Subtract => a.checked_sub(b)?,
                        _ => a.checked_mul(b)?,
                    }
                }
            };
            values.push(value);
        }
        usize::try_from(values.pop()?).ok()
    }
}

fn integer(ArgumentValue(value): &ArgumentValue, element: ElementType) -> Option<i64> {
    let Value::Scalar { bytes, .. } = value else { return None };
    let [a, b, c, d, ..] = *bytes;
    match element {
        ElementType::I32 => Some(i32::from_ne_bytes([a, b, c, d]).into()),
        ElementType::U32 => Some(u32::from_ne_bytes([a, b, c, d]).into()),
        ElementType::I64 => Some(i64::from_ne_bytes(*bytes)),
        ElementType::U64 => i64::try_from(u64::from_ne_bytes(*bytes)).ok(),
        ElementType::F64 | ElementType::F32 => None,
    }
}

/// Describes the region with as few dimensions as possible, each with more than one index.
fn merged(extents: &[usize; MAX_DIMS], strides: &[usize; MAX_DIMS]) -> Dimensions {
    let mut dimensions = Dimensions::new();
    for (&extent, &stride) in extents.iter().zip(strides).rev().filter(|(extent, _)| **extent != 1) {
        match dimensions.first_mut() {
            Some((inner, inner_stride)) if inner_stride.checked_mul(*inner) == Some(stride) => *inner *= extent,
            _ => dimensions.insert(0, (extent, stride)),
        }
    }
    dimensions
}

/// Returns whether all elements of a box that starts at the region's first element belong to the region.
fn holds(extents: &[usize; MAX_DIMS], strides: &[usize; MAX_DIMS], touched: &Dimensions) -> bool {
    if touched.iter().any(|(extent, _)| *extent == 0) {
        return true;
    }
    if extents.contains(&0) {
        return false;
    }
    let mut region = merged(extents, strides);
    // One step along a dimension of the box equals one or more steps along a dimension of the region, and the region
    // has only so many steps to give.
    region.iter_mut().for_each(|(extent, _)| *extent -= 1);
    touched.iter().filter(|(extent, stride)| *extent > 1 && *stride > 0).all(|(extent, stride)| {
        let along = region.iter_mut().find(|(_, of_region)| stride.is_multiple_of(*of_region) && stride >= of_region);
        along.is_some_and(|(left, of_region)| {
            let steps = (extent - 1).checked_mul(stride / *of_region).filter(|steps| *steps <= *left);
            *left -= steps.unwrap_or(0);
            steps.is_some()
        })
    })
}

#[cold]
fn refusal(kernel: &str, parameter: &str, touched: Option<&Dimensions>, region: &Dimensions) -> DeviceError {
    let words = |dimensions: &Dimensions| {
        let mut words = String::new();
        let mut side_by_side = 1;
        for (extent, stride) in dimensions.iter().rev() {
            let text = if *stride == side_by_side { format!("[{extent}]") } else { format!("[{extent} : {stride}]") };
            words.insert_str(0, &text);
            side_by_side = stride.saturating_mul(*extent);
        }
        if words.is_empty() { "[1]".to_owned() } else { words }
    };
    DeviceError::Bounds {
        kernel: kernel.to_owned(),
        parameter: parameter.to_owned(),
        touched: touched.map_or_else(|| "a negative or uncountable number".to_owned(), words),
        region: words(region),
    }
}

#[cfg(test)]
mod tests {
    use super::super::signature::parse;
    use super::*;
    use proptest::prelude::*;

    const HEAD: &str =
        "KERNEL(1, 1, 1) f(IN(double, x, BOX), int n, INT64 m, unsigned k, UINT64 l, float r) { REGION(x); }";

    fn text(bounds: &str) -> &'static str {
        HEAD.replace("BOX", bounds).leak()
    }

    /// Returns whether a kernel that declares this box may be launched on a region with these extents and strides, if
    /// its parameters n, m, k and l have the given values.
    fn check(bounds: &str, extents: [usize; 4], strides: [usize; 4], (n, m, k, l): (i32, i64, u32, u64)) -> bool {
        let signature = parse(text(bounds), "f", &[("LANES", 4)]).unwrap();
        let scalar = |bytes: [u8; 8]| ArgumentValue(Value::Scalar { bytes, len: 8 });
        let short = |[a, b, c, d]: [u8; 4]| scalar([a, b, c, d, 0, 0, 0, 0]);
        let memory = Value::Memory { base: 0, offset_bytes: 0, element_bytes: 8, extents, strides };
        let (n, k) = (short(n.to_ne_bytes()), short(k.to_ne_bytes()));
        let arguments = [ArgumentValue(memory), n.clone(), scalar(m.to_ne_bytes()), k, scalar(l.to_ne_bytes()), n];
        signature.bounds.check("f", &signature.names, &arguments).is_ok()
    }

    fn of_vector(bounds: &str, len: usize, n: i32) -> bool {
        check(bounds, [len, 1, 1, 1], [1; 4], (n, 0, 0, 0))
    }

    #[test]
    fn expressions_are_evaluated() {
        let values = (3, 5, 7, 11);
        for (bounds, value) in [
            ("n", 3),
            ("[n]", 3),
            ("2 * n + m", 11),
            ("m - n - 1", 1),
            ("m - (n - 1)", 3),
            ("n * (m + k) * l", 396),
            ("LANES * n", 12),
            ("[n][m][2]", 30),
            ("[n : 10][m]", 25),
            ("1 + (1 + (1 + (1 + n)))", 7),
        ] {
            let of = |len| check(bounds, [len, 1, 1, 1], [1; 4], values);
            assert!(of(value) && of(value + 1) && !of(value - 1), "{bounds} is {value}");
        }
    }

    #[test]
    fn invalid_expressions_are_refused() {
        for bounds in ["", "n +", "n m", "x", "r", "other", "n /* */ ]", "[n", "[n][", "n / 2", "[]", "1e3", "(n", "+n"]
        {
            let refused = parse(text(bounds), "f", &[]).unwrap_err();
            assert!(
                matches!(refused, SignatureError::Bounds { parameter: "x" } | SignatureError::Parameter),
                "{bounds}"
            );
        }
        assert!(parse(text("[1][1][1][1][1]"), "f", &[]).is_err());
        assert!(parse(text(&"1 + (".repeat(DEEPEST + 1)), "f", &[]).is_err());
        assert!(parse(text(&["n"; MOST_STEPS].join(" + ")), "f", &[]).is_err());
    }

    #[test]
    fn negative_and_overflowing_numbers_are_refused() {
        assert!(of_vector("n", 0, 0) && of_vector("n", 3, 3));
        assert!(!of_vector("n", 3, -1) && !of_vector("n", 0, 1));
        assert!(!of_vector("n * 1000000000 * 1000000000 * 1000000000", 3, 3));
        assert!(!check("l", [3, 1, 1, 1], [1; 4], (0, 0, 0, u64::MAX)));
        assert!(!check("m", [3, 1, 1, 1], [1; 4], (0, i64::MIN, 0, 0)));
        assert!(!check("[2][2 : m]", [9, 1, 1, 1], [1; 4], (0, -1, 0, 0)));
        assert!(!check("k", [3, 1, 1, 1], [1; 4], (0, 0, u32::MAX, 0)));
        // A box that is empty in one dimension touches nothing, however long it is in another.
        assert!(check("[n][m]", [1, 1, 1, 1], [1; 4], (0, i64::MAX, 0, 0)));
    }

    #[test]
    fn gaps_between_rows_do_not_belong_to_the_region() {
        let of = |bounds: &str| check(bounds, [3, 4, 1, 1], [10, 1, 1, 1], (3, 10, 0, 0));
        assert!(of("[n : m][4]") && of("[n : m]") && of("4") && of("[2 : 20][4]") && of("[4][1]"));
        assert!(
            !of("24") && !of("[n : m][5]") && !of("[4 : m][4]") && !of("5") && !of("[n : 9][4]") && !of("[3 : 20][4]")
        );
        // Two dimensions of the box map to one dimension of the region.
        assert!(of("[2 : 2][2 : 1]") && !of("[2 : 2][3 : 1]"));
    }

    proptest! {
        /// Each element of an admitted box belongs to the region.
        #[test]
        fn admitted_box_lies_in_the_region(
            extents in proptest::array::uniform4(0usize..4),
            gaps in proptest::array::uniform4(0usize..3),
            touched in proptest::collection::vec((0usize..5, 0usize..30), 1..=4),
        ) {
            let mut strides = [1; 4];
            for d in (0..3).rev() {
                strides[d] = strides[d + 1] * (extents[d + 1].max(1) + gaps[d + 1]);
            }
            let region: std::collections::HashSet<usize> = elements(extents.into_iter().zip(strides)).collect();
            let inside = elements(touched.iter().copied()).all(|element| region.contains(&element));
            let let_through = holds(&extents, &strides, &touched.iter().copied().collect());
            prop_assert!(inside || !let_through);
        }

        /// The region itself is admitted, in its own dimensions.
        #[test]
        fn region_itself_is_admitted(
            extents in proptest::array::uniform4(0usize..5),
            gaps in proptest::array::uniform4(0usize..3),
        ) {
            let mut strides = [1; 4];
            for d in (0..3).rev() {
                strides[d] = strides[d + 1] * (extents[d + 1].max(1) + gaps[d + 1]);
            }
            prop_assert!(holds(&extents, &strides, &extents.into_iter().zip(strides).collect()));
        }
    }

    fn elements(dimensions: impl Iterator<Item = (usize, usize)>) -> impl Iterator<Item = usize> {
        let along = |elements: Vec<usize>, (extent, stride): (usize, usize)| {
            (0..extent)
                .flat_map(|i| elements.iter().map(move |element| element + i * stride).collect::<Vec<_>>())
                .collect()
        };
        dimensions.fold(vec![0], along).into_iter()
    }
}
