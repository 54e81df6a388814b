//! The file format around the records: a header followed by frames, each with its kind and length.
//!
//! ```text
//! file  = "THALWEG\x1a" version:u32 frame*
//! frame = kind:u32 length:u32 payload          (little-endian; length in bytes, of the payload)
//! ```
//!
//! | kind | payload |
//! | --- | --- |
//! | [`META`] | UTF-8 lines `key TAB value`: the machine, the clock, the program |
//! | [`SITES`] | per site: number, line, column, lengths of name and file (`u32` each), name, file |
//! | [`DATA`] | per data object: number (`u64`), bytes (`u64`), length of name (`u32`), name |
//! | [`EVENTS`] | thread (`u32`), zero (`u32`), position of the first word in the thread's sequence (`u64`), words |
//! | [`REGIONS`] | per region: number (`u32`), length of its text (`u32`), data object (`u64`), bytes (`u64`), text |
//! | [`RECORDINGS`] | per recording: see [`push_recording`] |
//! | [`END`] | ticks at the end of the run (`u64`) |
//!
//! A name is written before the first record that refers to it. So a file that ends early because the program was
//! killed is usable up to its last complete frame. Frames of one thread may be out of order; the position in each
//! frame says where its words belong.

/// The first eight bytes of a trace file.
pub const MAGIC: [u8; 8] = *b"THALWEG\x1a";
/// The version of the format. Readers reject all other versions.
pub const VERSION: u32 = 4;
/// A frame with lines `key TAB value`; see [`Trace`](crate::Trace) for the keys.
pub const META: u32 = 1;
/// A frame with sites.
pub const SITES: u32 = 2;
/// A frame with data objects.
pub const DATA: u32 = 3;
/// A frame with records of one thread.
pub const EVENTS: u32 = 4;
/// The final frame, present only if the run ended normally.
pub const END: u32 = 5;
/// A frame with regions, in traces that have accesses.
pub const REGIONS: u32 = 6;
/// A frame with recordings of tasks that are replayed.
pub const RECORDINGS: u32 = 7;

/// Returns the file header.
pub fn head() -> [u8; 12] {
    let mut head = [0; 12];
    head[..8].copy_from_slice(&MAGIC);
    head[8..].copy_from_slice(&VERSION.to_le_bytes());
    head
}

/// Appends a frame, calling `fill` to append its payload.
///
/// # Panics
/// Panics if the payload is 4 GiB or larger.
pub fn push(out: &mut Vec<u8>, kind: u32, fill: impl FnOnce(&mut Vec<u8>)) {
    out.extend(kind.to_le_bytes());
    let at = out.len();
    out.extend([0; 4]);
    fill(out);
    let length = u32::try_from(out.len() - at - 4).expect("a frame is smaller than 4 GiB");
    out[at..at + 4].copy_from_slice(&length.to_le_bytes());
}

/// Appends a site to the payload of a [`SITES`] frame.
pub fn push_site(out: &mut Vec<u8>, number: u32, name: &str, file: &str, line: u32, column: u32) {
    for field in [number, line, column, name.len() as u32, file.len() as u32] {
        out.extend(field.to_le_bytes());
    }
    out.extend(name.as_bytes());
    out.extend(file.as_bytes());
}

/// Appends a data object to the payload of a [`DATA`] frame.
pub fn push_data(out: &mut Vec<u8>, number: u64, bytes: u64, name: &str) {
    out.extend(number.to_le_bytes());
    out.extend(bytes.to_le_bytes());
    out.extend((name.len() as u32).to_le_bytes());
    out.extend(name.as_bytes());
}

/// Appends a region to the payload of a [`REGIONS`] frame.
pub fn push_region(out: &mut Vec<u8>, number: u32, data: u64, bytes: u64, text: &str) {
    out.extend(number.to_le_bytes());
    out.extend((text.len() as u32).to_le_bytes());
    out.extend(data.to_le_bytes());
    out.extend(bytes.to_le_bytes());
    out.extend(text.as_bytes());
}

/// A recording: tasks that are submitted any number of times.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recording {
    /// The number of the first task; the numbers of the others follow.
    pub first: u64,
    /// The site of each task.
    pub sites: Vec<u32>,
    /// The dependences, in terms of indices of tasks.
    pub dependences: Vec<RecordedDependence>,
    /// The accesses: index of the task, region, and mode ([`Mode`](crate::record::Mode)).
    pub accesses: Vec<[u32; 3]>,
    /// The parts of data that the recording uses.
    pub border: Vec<BorderPart>,
}

/// A part of data that a recording uses uniformly, with the indices of tasks that come first and last there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BorderPart {
    /// The data object; [`UNKNOWN`](crate::record::UNKNOWN) if it is not known.
    pub data: u32,
    /// The tasks that use contents from before the recording.
    pub readers: Vec<u32>,
    /// The tasks of the first group that writes the part.
    pub first_writers: Vec<u32>,
    /// The tasks of the last group that writes the part.
    pub writers: Vec<u32>,
    /// The tasks that use the part after the last group without writing it.
    pub last_readers: Vec<u32>,
}

impl BorderPart {
    /// Returns the four lists, in the order in which they are written.
    pub const fn lists(&self) -> [&Vec<u32>; 4] {
        [&self.readers, &self.first_writers, &self.writers, &self.last_readers]
    }
}

/// A dependence between two tasks of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordedDependence {
    /// The index of the predecessor.
    pub from: u32,
    /// The index of the successor.
    pub to: u32,
    /// The data object; [`UNKNOWN`](crate::record::UNKNOWN) if it is not known.
    pub data: u32,
    /// Whether the dependence carries a value.
    pub carries_value: bool,
}

/// Appends a recording to the payload of a [`RECORDINGS`] frame: number of its first task (`u64`); numbers of tasks,
/// dependences, accesses and parts; sites; predecessor, successor, data object and flag of each dependence; task,
/// region and mode of each access; the data object of each part and four lists, each after its length (`u32` each).
pub fn push_recording(out: &mut Vec<u8>, recording: &Recording) {
    let Recording { first, sites, dependences, accesses, border } = recording;
    out.extend(first.to_le_bytes());
    let lengths = [sites.len(), dependences.len(), accesses.len(), border.len()].map(|length| length as u32);
    let dependences = dependences.iter().flat_map(|edge| [edge.from, edge.to, edge.data, edge.carries_value.into()]);
    let fields = lengths.into_iter().chain(sites.iter().copied()).chain(dependences);
    let parts = border.iter().flat_map(|part| {
        let list = |list: &Vec<u32>| [list.len() as u32].into_iter().chain(list.clone());
        [part.data].into_iter().chain(part.lists().into_iter().flat_map(list))
    });
    let fields = fields.chain(accesses.iter().flatten().copied()).chain(parts);
    fields.for_each(|field| out.extend(field.to_le_bytes()));
}
