//! Reader of the resource usage that NVIDIA's compiler records in its output, which is an ELF file with a list of
//! attributes in the section `.nv.info`. The attribute numbers were determined from the names that NVIDIA's `cuobjdump
//! -elf` shows.
//!
//! The reader does not validate the file: it panics if the file is malformed.

use std::collections::BTreeMap;

/// `EIATTR_REGCOUNT` and `EIATTR_FRAME_SIZE`: registers per thread and stack bytes per thread, for each symbol.
const REGISTERS: u8 = 0x2f;
const FRAME: u8 = 0x11;
/// `EIFMT_SVAL`: the attribute's size field is the number of bytes that follow. In all other formats, no bytes follow.
const SIZED: u8 = 4;

/// Resources that each thread of a kernel uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Usage {
    /// Number of registers, at most 255.
    pub(crate) registers: u32,
    /// Size of private memory: spilled registers, and arrays whose indices are known only at run time.
    pub(crate) stack_bytes: u32,
}

struct Section<'a> {
    name: String,
    content: &'a [u8],
}

fn number(bytes: &[u8], at: usize, len: usize) -> usize {
    bytes[at..at + len].iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte))
}

fn text(bytes: &[u8], at: usize) -> String {
    let text = bytes[at..].split(|byte| *byte == 0).next().expect("`split` yields at least one part");
    String::from_utf8_lossy(text).into_owned()
}

fn sections(elf: &[u8]) -> Vec<Section<'_>> {
    assert!(elf.starts_with(b"\x7fELF\x02\x01"), "not a 64-bit ELF file");
    let (first, each, count, names) = (number(elf, 40, 8), number(elf, 58, 2), number(elf, 60, 2), number(elf, 62, 2));
    let content = |n: usize| {
        let header = first + n * each;
        let (kind, offset, len) =
            (number(elf, header + 4, 4), number(elf, header + 24, 8), number(elf, header + 32, 8));
        const NOTHING: usize = 8;
        if kind == NOTHING { &[][..] } else { &elf[offset..offset + len] }
    };
    let name = |n: usize| text(content(names), number(elf, first + n * each, 4));
    (0..count).map(|n| Section { name: name(n), content: content(n) }).collect()
}

/// Returns the resource usage of each kernel, by kernel name.
pub(crate) fn usage(elf: &[u8]) -> BTreeMap<String, Usage> {
    let sections = sections(elf);
    let content = |name: &str| sections.iter().find(|s| s.name == name).map_or(&[][..], |s| s.content);
    let (symbols, names, info) = (content(".symtab"), content(".strtab"), content(".nv.info"));
    let (mut usage, mut at) = (BTreeMap::<String, Usage>::new(), 0);
    while at + 4 <= info.len() {
        let (format, attribute, len) = (info[at], info[at + 1], number(info, at + 2, 2));
        at += 4;
        if format != SIZED {
            continue;
        }
        if let REGISTERS | FRAME = attribute {
            const SYMBOL_BYTES: usize = 24;
            let symbol = number(info, at, 4) * SYMBOL_BYTES;
            let of_kernel = usage.entry(text(names, number(symbols, symbol, 4))).or_default();
            let value = number(info, at + 4, 4) as u32;
            match attribute {
                REGISTERS => of_kernel.registers = value,
                _ => of_kernel.stack_bytes = value,
            }
        }
        at += len;
    }
    usage
}

/// Returns the compiler's release string, or `None` if the file has none.
pub(crate) fn release(elf: &[u8]) -> Option<String> {
    const BEFORE: &[u8] = b"release ";
    let at = elf.windows(BEFORE.len()).position(|window| window == BEFORE)? + BEFORE.len();
    Some(text(elf, at).split(',').next()?.to_owned())
}
