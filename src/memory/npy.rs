//! The header of `.npy` files: NumPy's format of arrays ("A Simple File Format for NumPy Arrays", NEP 1).
//!
//! A header is the magic string, a version of two bytes, the length of the text as a little-endian number of two bytes
//! (version 1) or four (versions 2 and 3), and the text: a dictionary of Python with the keys `descr`, `fortran_order`
//! and `shape`, in any order. The elements follow. The parser accepts exactly this form, and only what a data object
//! can be: little-endian numbers in row-major order.

use super::dlpack::DlDataType;

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// The magic string, the version, and the longer of the two lengths.
pub(crate) const PREFIX_BYTES: usize = 12;
/// The elements begin at a multiple of this number.
const ALIGN: usize = 64;
/// Limit of the text's length, which is a few hundred bytes in real files.
const MOST_BYTES: usize = 1 << 16;

/// The contents of a header.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) descr: String,
    pub(crate) shape: Vec<usize>,
}

/// Returns NumPy's name of an element type, such as `<f8`.
pub(crate) fn descr(DlDataType { code, bits, .. }: DlDataType) -> String {
    let kind = match code {
        0 => 'i',
        1 => 'u',
        2 => 'f',
        _ => 'c',
    };
    let bytes = bits / 8;
    format!("{}{kind}{bytes}", if bytes == 1 { '|' } else { '<' })
}

/// Returns where the text of a header is in its file, given the file's first [`PREFIX_BYTES`], or as many as there are.
///
/// # Errors
/// Returns the problem in words.
pub(crate) fn text_range(prefix: &[u8]) -> Result<std::ops::Range<usize>, String> {
    let Some([major, _, rest @ ..]) = prefix.strip_prefix(MAGIC) else {
        return Err("it does not begin as an `.npy` file; try `ArrayFile::open_raw`".to_owned());
    };
    let (begin, len) = match (*major, rest) {
        (1, [a, b, ..]) => (10, usize::from(u16::from_le_bytes([*a, *b]))),
        (2 | 3, [a, b, c, d, ..]) => (12, u32::from_le_bytes([*a, *b, *c, *d]) as usize),
        (1..=3, _) => return Err("its header is truncated; try writing the file again".to_owned()),
        (version, _) => return Err(format!("its format has version {version}; try version 1, 2 or 3")),
    };
    if len > MOST_BYTES {
        return Err(format!("its header has {len} bytes; try an array without fields, whose header is short"));
    }
    Ok(begin..begin + len)
}

/// Parses the text of a header.
///
/// # Errors
/// Returns the problem in words.
pub(crate) fn parse(text: &[u8]) -> Result<Header, String> {
    let text = std::str::from_utf8(text).map_err(|_| "its header is no text; try writing the file again".to_owned())?;
    let malformed = || format!("its header is malformed: {:?}; try writing the file again", text.trim_end());
    let mut rest = text.trim().strip_prefix('{').and_then(|text| text.strip_suffix('}')).ok_or_else(malformed)?.trim();
    let (mut descr, mut is_fortran, mut shape) = (None, None, None);
    while !rest.is_empty() {
        let (key, after) = quoted(rest).ok_or_else(malformed)?;
        let value = after.trim_start().strip_prefix(':').ok_or_else(malformed)?.trim_start();
        let after = match key {
            "descr" if descr.is_none() && value.starts_with('[') => {
                return Err("its elements have fields; try one array for each field".to_owned());
            }
            "descr" if descr.is_none() => {
                let (name, after) = quoted(value).ok_or_else(malformed)?;
                descr = Some(name.to_owned());
                after
            }
            "fortran_order" if is_fortran.is_none() => {
                let found = [("True", true), ("False", false)];
                let found = found.iter().find_map(|(word, yes)| Some((*yes, value.strip_prefix(word)?)));
                let (yes, after) = found.ok_or_else(malformed)?;
                is_fortran = Some(yes);
                after
            }
            "shape" if shape.is_none() => {
                let (inside, after) =
                    value.strip_prefix('(').and_then(|value| value.split_once(')')).ok_or_else(malformed)?;
                shape = Some(extents(inside).ok_or_else(malformed)?);
                after
            }
            _ => return Err(malformed()),
        };
        rest = match after.trim_start() {
            "" => "",
            after => after.strip_prefix(',').ok_or_else(malformed)?.trim_start(),
        };
    }
    match (descr, is_fortran, shape) {
        (Some(_), Some(true), Some(_)) => {
            Err("its elements are in column-major order; try `numpy.ascontiguousarray` before `numpy.save`".to_owned())
        }
        (Some(descr), Some(false), Some(shape)) => Ok(Header { descr, shape }),
        _ => Err(malformed()),
    }
}

/// Splits a word in quotes from the text after it.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let quote = text.chars().next().filter(|first| matches!(first, '\'' | '"'))?;
    text[1..].split_once(quote)
}

/// Parses the inside of a tuple of integers: `3, 4`, or `3,` for a single one.
fn extents(inside: &str) -> Option<Vec<usize>> {
    let inside = inside.trim();
    if inside.is_empty() {
        return Some(Vec::new());
    }
    let is_tuple = inside.contains(',');
    let parts = inside.strip_suffix(',').unwrap_or(inside).split(',');
    let digits =
        |part: &str| Some(part.trim()).filter(|part| part.bytes().all(|byte| byte.is_ascii_digit()))?.parse().ok();
    parts.map(digits).collect::<Option<Vec<_>>>().filter(|_| is_tuple)
}

/// Returns a header of version 1, after which the elements follow.
pub(crate) fn format(header: &Header) -> Vec<u8> {
    let Header { descr, shape } = header;
    let extents: String = shape.iter().map(|extent| format!("{extent}, ")).collect();
    let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({}), }}", extents.trim_end());
    let begin = PREFIX_BYTES - 2;
    let all = (begin + text.len() + 1).next_multiple_of(ALIGN);
    let mut bytes = [MAGIC.as_slice(), &[1, 0], &((all - begin) as u16).to_le_bytes(), text.as_bytes()].concat();
    bytes.resize(all - 1, b' ');
    bytes.push(b'\n');
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(bytes: &[u8]) -> Result<Header, String> {
        let text = text_range(&bytes[..bytes.len().min(PREFIX_BYTES)])?;
        parse(bytes.get(text).ok_or("its header is truncated")?)
    }

    #[test]
    fn written_header_is_read_back() {
        for shape in [vec![], vec![7], vec![0, 3], vec![1, 2, 3, 4]] {
            let header = Header { descr: "<f8".to_owned(), shape };
            let bytes = format(&header);
            assert_eq!((bytes.len() % ALIGN, read(&bytes)), (0, Ok(header)));
        }
    }

    #[test]
    fn numpy_header_is_read() {
        // As `numpy.save` writes them.
        let text = b"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }          \n";
        assert_eq!(parse(text), Ok(Header { descr: "<f4".to_owned(), shape: vec![3] }));
        let text = b"{\"shape\": (20, 5), 'fortran_order': False, 'descr': '|u1'}";
        assert_eq!(parse(text), Ok(Header { descr: "|u1".to_owned(), shape: vec![20, 5] }));
    }

    #[test]
    fn bad_header_is_refused_with_its_problem() {
        for (text, problem) in [
            ("", "malformed"),
            ("{}", "malformed"),
            ("{'descr': '<f8', 'fortran_order': True, 'shape': (2, 2)}", "column-major"),
            ("{'descr': [('x', '<f8')], 'fortran_order': False, 'shape': (2,)}", "fields"),
            ("{'descr': '<f8', 'fortran_order': False, 'shape': (2)}", "malformed"),
            ("{'descr': '<f8', 'fortran_order': False, 'shape': (-2,)}", "malformed"),
            ("{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999,)}", "malformed"),
            ("{'descr': '<f8', 'descr': '<f8', 'fortran_order': False, 'shape': (2,)}", "malformed"),
            ("{'descr': '<f8', 'fortran_order': False, 'shape': (2,), 'more': 1}", "malformed"),
            ("{'descr': '<f8' 'fortran_order': False, 'shape': (2,)}", "malformed"),
        ] {
            let error = parse(text.as_bytes()).unwrap_err();
            assert!(error.contains(problem) && error.contains("; try "), "{text}: {error}");
        }
        for (bytes, problem) in [
            (&b"PK\x03\x04"[..], "does not begin"),
            (b"\x93NUMPY\x01\x00\x10", "truncated"),
            (b"\x93NUMPY\x09\x00\x10\x00\x00\x00", "version 9"),
            (b"\x93NUMPY\x02\x00\xff\xff\xff\xff", "4294967295 bytes"),
        ] {
            let error = text_range(bytes).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = (read(&bytes), parse(&bytes), read(&[MAGIC.as_slice(), &bytes].concat()));
        }
    }
}
