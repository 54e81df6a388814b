//! Parser for unit configurations such as `"4:CPU:4,2:GPU:1"` or `"4x4+2"`.
//!
//! There are two notations:
//!
//! - `count:KIND:size` terms separated by commas, from González-Tallada & Morancho 2023, §3.2.1 and Figures 10 and
//!   11, which use either single or double colons.
//! - `N×M+G`, which means N CPU units of M cores and G units of one GPU, from the same authors' "Evaluation of work
//!   distribution schedulers" (2024), section 3; and `N×M+D×G`, with D units of G GPUs, from the first paper's
//!   section 3.1.1. `x` may be written instead of `×`.
//!
//! This module only parses text; [`UnitConfig::new`] checks the limits.
//!
//! Invariant: neither blanks between the parts nor the case of letters ever matter.

use std::str::FromStr;

use super::config::{UnitConfig, UnitTerm};
use super::error::{ConfigError, field};
use super::kind::UnitKind;

impl FromStr for UnitConfig {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        if text.trim().is_empty() {
            return Err(ConfigError::Empty);
        }
        let is_product = !text.contains(':') && text.contains(['x', 'X', '×', '+']);
        Self::new(if is_product { products(text)? } else { list(text)? })
    }
}

/// A term as written, with its position, so that every error can mention both.
struct Written<'a> {
    text: &'a str,
    position: usize,
}

impl Written<'_> {
    fn missing(&self, field: &'static str) -> ConfigError {
        ConfigError::MissingField { term: self.text.to_owned(), position: self.position, field }
    }

    fn number(&self, text: &str, field: &'static str) -> Result<usize, ConfigError> {
        let (term, position) = (self.text.to_owned(), self.position);
        if text.is_empty() {
            Err(self.missing(field))
        } else if text.bytes().all(|b| b.is_ascii_digit()) {
            // A text of digits fails to parse only if there are too many digits.
            text.parse().map_err(|_| ConfigError::NumberTooLarge { term, position, field })
        } else {
            Err(ConfigError::NotANumber { term, position, field, text: text.to_owned() })
        }
    }

    fn kind(&self, text: &str) -> Result<UnitKind, ConfigError> {
        if text.is_empty() {
            return Err(self.missing(field::KIND));
        }
        UnitKind::from_keyword(text).ok_or_else(|| ConfigError::UnknownKind {
            term: self.text.to_owned(),
            position: self.position,
            kind: text.to_owned(),
        })
    }
}

/// Parses `count:KIND:size, ...`.
fn list(text: &str) -> Result<Vec<UnitTerm>, ConfigError> {
    let terms = (1..).zip(text.split(','));
    terms.map(|(position, text)| term(&Written { text: text.trim(), position })).collect()
}

fn term(written: &Written<'_>) -> Result<UnitTerm, ConfigError> {
    if written.text.is_empty() {
        return Err(ConfigError::EmptyTerm { position: written.position });
    }
    let single = written.text.replace("::", ":");
    let parts: Vec<&str> = single.split(':').map(str::trim).collect();
    match parts[..] {
        [count, kind, size] => Ok(UnitTerm {
            count: written.number(count, field::COUNT)?,
            kind: written.kind(kind)?,
            size: written.number(size, field::SIZE)?,
        }),
        [count] if is_number(count) => Err(written.missing(field::KIND)),
        [count, size] if is_number(count) && is_number(size) => Err(written.missing(field::KIND)),
        [count, _] if is_number(count) => Err(written.missing(field::SIZE)),
        [_] | [_, _] => Err(written.missing(field::COUNT)),
        _ => Err(ConfigError::ExtraField { term: written.text.to_owned(), position: written.position }),
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// Parses `N×M`, `N×M+G` or `N×M+D×G`.
fn products(text: &str) -> Result<Vec<UnitTerm>, ConfigError> {
    let (cpus, gpus) = match text.split_once('+') {
        Some((cpus, gpus)) => (cpus, Some(gpus)),
        None => (text, None),
    };
    let mut terms = vec![product(cpus, 1, UnitKind::Cpu, None)?];
    if let Some(gpus) = gpus {
        terms.push(product(gpus, 2, UnitKind::Gpu, Some(1))?);
    }
    Ok(terms)
}

/// Parses `count×size`, or only `count` if `implied_size` gives the size.
fn product(text: &str, position: usize, kind: UnitKind, implied_size: Option<usize>) -> Result<UnitTerm, ConfigError> {
    let written = Written { text: text.trim(), position };
    if written.text.is_empty() {
        return Err(written.missing(field::COUNT));
    }
    let (count, size) = match written.text.split_once(['x', 'X', '×']) {
        Some((count, size)) => (count, Some(size.trim())),
        None => (written.text, None),
    };
    let count = written.number(count.trim(), field::COUNT)?;
    let size = match (size, implied_size) {
        (Some(size), _) => written.number(size, field::SIZE)?,
        (None, Some(size)) => size,
        (None, None) => return Err(written.missing(field::SIZE)),
    };
    Ok(UnitTerm { count, kind, size })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(text: &str) -> String {
        text.parse::<UnitConfig>().unwrap().to_string()
    }

    fn error(text: &str) -> ConfigError {
        text.parse::<UnitConfig>().unwrap_err()
    }

    #[test]
    fn configurations_from_the_papers_parse() {
        // "Compute units in OpenMP": Figure 11, then section 3.2.1.
        assert_eq!(canonical("4:CPU:4, 2:GPU:1"), "4:CPU:4,2:GPU:1");
        assert_eq!(canonical(" 2::CPU::4, 2::GPU::1 "), "2:CPU:4,2:GPU:1");
        // "Evaluation of work distribution schedulers", Table 2.
        for (text, expected) in [
            ("1x2 + 4", "1:CPU:2,4:GPU:1"),
            ("1x4 + 1", "1:CPU:4,1:GPU:1"),
            ("4x2 + 1", "4:CPU:2,1:GPU:1"),
            ("7x2 + 2", "7:CPU:2,2:GPU:1"),
            ("3x4 + 4", "3:CPU:4,4:GPU:1"),
        ] {
            assert_eq!(canonical(text), expected);
        }
    }

    #[test]
    fn blanks_case_and_signs_do_not_matter() {
        assert_eq!(canonical("1 : emu : 2,\t3 :: Fpga::1"), "1:EMU:2,3:FPGA:1");
        assert_eq!(canonical("2:cpu:1,2:CUDA:1,1:Cpu:4"), "2:CPU:1,2:CUDA:1,1:CPU:4");
        for text in ["7×2+2", "7X2+2", " 7 x 2 + 2 ", "7x2+2x1", "07x2+2"] {
            assert_eq!(canonical(text), "7:CPU:2,2:GPU:1");
        }
        assert_eq!(canonical("4x8"), "4:CPU:8");
        assert_eq!(canonical("4 × 4 + 2 × 3"), "4:CPU:4,2:GPU:3");
    }

    #[test]
    fn empty_text_and_empty_terms_are_refused() {
        for text in ["", "  \t"] {
            assert_eq!(error(text), ConfigError::Empty);
        }
        for (text, position) in [("1:CPU:1,,1:EMU:1", 2), ("1:CPU:1, ", 2), (",1:CPU:1", 1)] {
            assert_eq!(error(text), ConfigError::EmptyTerm { position });
        }
    }

    #[test]
    fn missing_part_is_named() {
        for (text, position, field) in [
            ("4", 1, field::KIND),
            ("4:4", 1, field::KIND),
            ("4::4", 1, field::KIND),
            ("4: :4", 1, field::KIND),
            ("4:CPU:4,2:GPU", 2, field::SIZE),
            ("4:CPU:4,2:GPU:", 2, field::SIZE),
            ("CPU:4", 1, field::COUNT),
            ("CPU", 1, field::COUNT),
            (":CPU:4", 1, field::COUNT),
            ("x4", 1, field::COUNT),
            ("+2", 1, field::COUNT),
            ("4x2+", 2, field::COUNT),
            ("4x", 1, field::SIZE),
            ("8+2", 1, field::SIZE),
        ] {
            let e = error(text);
            assert!(
                matches!(&e, ConfigError::MissingField { position: p, field: f, .. }
                    if (*p, *f) == (position, field)),
                "{text}: {e}"
            );
            assert!(e.to_string().contains(&format!("has no {field}; write count:KIND:size")));
        }
    }

    #[test]
    fn too_many_parts_are_refused() {
        let (term, position) = ("4:CPU:4 2:GPU:1".to_owned(), 2);
        let e = error("1:CPU:1,4:CPU:4 2:GPU:1");
        assert!(e.to_string().contains("separate terms with commas"), "{e}");
        assert_eq!(e, ConfigError::ExtraField { term, position });
    }

    #[test]
    fn numbers_other_than_digits_are_refused() {
        for (text, position, field, wrong) in [
            ("four:CPU:4", 1, field::COUNT, "four"),
            ("1:CPU:1,-1:EMU:1", 2, field::COUNT, "-1"),
            ("+1:CPU:1", 1, field::COUNT, "+1"),
            ("1:CPU:1.5", 1, field::SIZE, "1.5"),
            ("4x2x3", 1, field::SIZE, "2x3"),
            ("4x2+1+1", 2, field::COUNT, "1+1"),
        ] {
            let e = error(text);
            assert!(
                matches!(&e, ConfigError::NotANumber { position: p, field: f, text, .. }
                    if (*p, *f, text.as_str()) == (position, field, wrong)),
                "{text}: {e}"
            );
            assert!(e.to_string().ends_with("is not a whole number; write digits"), "{e}");
        }
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        let too_large = |text| matches!(error(text), ConfigError::NumberTooLarge { .. });
        assert!(too_large("1025:CPU:1"));
        assert!(too_large("99999999999999999999999:CPU:1"));
        assert!(too_large("1x1025"));
        assert!(matches!(error("4x0"), ConfigError::Zero { field: field::SIZE, .. }));
        assert!(matches!(error("4x1+0"), ConfigError::Zero { field: field::COUNT, position: 2, .. }));
        assert!(matches!(error("1024x1+1"), ConfigError::TooManyUnits { units: 1025, position: 2, .. }));
    }

    #[test]
    fn unknown_kind_error_lists_known_kinds() {
        let e = error("2:CPU:1,1:XPU:1");
        for kind in UnitKind::ALL {
            assert!(e.to_string().contains(kind.keyword()), "{e}");
        }
        let (term, kind) = ("1:XPU:1".into(), "XPU".into());
        assert_eq!(e, ConfigError::UnknownKind { term, position: 2, kind });
    }
}
