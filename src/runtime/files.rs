//! Arrays in users' files: `.npy` files, and raw files of elements.
//!
//! A file is the disk of its array: its rows are data objects whose home begins empty, with a valid replica on the disk
//! that is a part of the file. So rows are read when a task needs them, evicted like all other arrays, and written back
//! to their place in the file. Nothing here reads or writes elements, except the task of [`FileArray::save`].

use super::door::is_countable;
use super::runtime::Runtime;
use crate::depend::Datum;
use crate::device::UserFile;
use crate::error::{FileError, SubmitError};
use crate::ids::{SpaceId, TaskId};
use crate::memory::dlpack::DlElement;
use crate::memory::npy::{self, Header};
use crate::memory::{Element, Shape};
use crate::task::Data;
use ndarray::{ArrayView, IntoDimension};
use parking_lot::Mutex;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::marker::PhantomData;
use std::ops::{Deref, Range};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// A file that contains an array of elements of type `T` in `S` dimensions, in row-major order.
///
/// Its rows become data objects by [`Runtime::open_rows`] and [`Runtime::open_array`], so one large file can be many
/// data objects. A *row* is everything with the same first index.
///
/// ```
/// use thalweg::ArrayFile;
/// use thalweg::prelude::*;
/// let folder = std::env::temp_dir();
/// let path = folder.join(format!("thalweg-{}.npy", std::process::id()));
/// let rt = Runtime::builder().compute_units("2:CPU:1").host_memory(1 << 16).spill_to(&folder).build()?;
/// // 256 KiB: four times as much as fits.
/// let file = ArrayFile::<f64, Ix2>::create(&path, [256, 128])?;
/// for rows in blocks(256, 16) {
///     let part = rt.open_rows(&file, rows.clone())?;
///     rt.task("fill", part.output()).cpu(move |_, mut part| part.fill(rows.start as f64)).submit()?;
///     part.save(&rt)?;
/// }
/// rt.wait()?;
///
/// let again = ArrayFile::<f64, Ix2>::open(&path)?;
/// assert_eq!(again.shape(), [256, 128]);
/// let part = rt.open_rows(&again, 100..102)?;
/// assert_eq!(rt.read(part.all())?[[1, 7]], 96.0);
/// std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ArrayFile<T, S> {
    opened: Arc<Opened>,
    shape: Vec<usize>,
    element: PhantomData<fn() -> (T, S)>,
}

/// An open file.
#[derive(Debug)]
struct Opened {
    user: Arc<UserFile>,
    /// Position of the first element.
    first: u64,
    /// The rows that are data objects.
    rows: Mutex<Vec<Range<usize>>>,
}

/// Rows of a file as a data object, which this dereferences to.
pub struct FileArray<T, S: Shape> {
    data: Data<T, S>,
    opened: Arc<Opened>,
    /// Position of the first element.
    first: u64,
}

impl<T: DlElement, S: Shape> ArrayFile<T, S> {
    /// Opens a `.npy` file for reading and writing.
    ///
    /// # Errors
    /// Fails if the file cannot be opened, if it is not an `.npy` file, or if its elements are not of type `T` in
    /// little-endian and row-major order with `S` dimensions, or fewer than its header states.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, FileError> {
        let path = path.as_ref();
        let refuse = |problem: String| FileError::new("open", path.to_owned(), problem);
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(|error| refuse(system(&error)))?;
        let mut prefix = [0; npy::PREFIX_BYTES];
        let len = read_up_to(&file, &mut prefix, 0).map_err(|error| refuse(system(&error)))?;
        let text = npy::text_range(&prefix[..len]).map_err(refuse)?;
        let mut bytes = vec![0; text.len()];
        if read_up_to(&file, &mut bytes, text.start as u64).map_err(|error| refuse(system(&error)))? < text.len() {
            return Err(refuse("its header is truncated; try writing the file again".to_owned()));
        }
        let Header { descr, shape } = npy::parse(&bytes).map_err(refuse)?;
        let expected = npy::descr(T::DATA_TYPE);
        if descr != expected {
            return Err(refuse(format!("its elements are `{descr}`, not `{expected}`; try `astype` before saving it")));
        }
        Self::of(path, file, text.end as u64, shape)
    }

    /// Opens a file that contains only elements, of an array of this shape, for reading and writing.
    ///
    /// # Errors
    /// Fails if the file cannot be opened, or has fewer elements.
    pub fn open_raw(path: impl AsRef<Path>, shape: impl IntoDimension<Dim = S>) -> Result<Self, FileError> {
        let path = path.as_ref();
        let file = OpenOptions::new().read(true).write(true).open(path);
        let file = file.map_err(|error| FileError::new("open", path.to_owned(), system(&error)))?;
        Self::of(path, file, 0, shape.into_dimension().slice().to_vec())
    }

    /// Creates a `.npy` file of zeros, or replaces a file.
    ///
    /// # Errors
    /// Fails if the file cannot be created, or if no file can have this size.
    pub fn create(path: impl AsRef<Path>, shape: impl IntoDimension<Dim = S>) -> Result<Self, FileError> {
        let (path, shape) = (path.as_ref(), shape.into_dimension().slice().to_vec());
        let refuse = |problem: String| FileError::new("create", path.to_owned(), problem);
        let header = npy::format(&Header { descr: npy::descr(T::DATA_TYPE), shape: shape.clone() });
        let first = header.len() as u64;
        let end = bytes_of::<T>(&shape).and_then(|bytes| bytes.checked_add(first));
        let end = end.ok_or_else(|| refuse("no file can have this size; try smaller extents".to_owned()))?;
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path);
        let file = file.map_err(|error| refuse(system(&error)))?;
        let write = || file.write_all_at(&header, 0).and_then(|()| file.set_len(end));
        write().map_err(|error| refuse(system(&error)))?;
        Self::of(path, file, first, shape)
    }

    fn of(path: &Path, file: File, first: u64, shape: Vec<usize>) -> Result<Self, FileError> {
        let refuse = |problem: String| Err(FileError::new("open", path.to_owned(), problem));
        if cfg!(target_endian = "big") {
            return refuse("its elements are little-endian; try a machine that is".to_owned());
        }
        if Some(shape.len()) != S::NDIM {
            let (found, expected) = (shape.len(), S::NDIM.unwrap_or(0));
            return refuse(format!("its array has {found} dimensions, not {expected}; try another type of dimension"));
        }
        let has = file.metadata().map(|file| file.len());
        let has = has.map_err(|error| FileError::new("open", path.to_owned(), system(&error)))?;
        match bytes_of::<T>(&shape).and_then(|bytes| bytes.checked_add(first)) {
            Some(end) if end <= has => {}
            needed => {
                let needed = needed.map_or_else(|| "more than any file has".to_owned(), |end| end.to_string());
                return refuse(format!(
                    "it has {has} bytes, and an array of shape {shape:?} needs {needed}; try its shape"
                ));
            }
        }
        let user = Arc::new(UserFile { file: Arc::new(file), path: path.to_owned() });
        let opened = Opened { user, first, rows: Mutex::default() };
        Ok(Self { opened: Arc::new(opened), shape, element: PhantomData })
    }

    /// Returns the extents of the array.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }
}

/// Returns the size of an array in bytes, if a file and a data object can have this size.
fn bytes_of<T>(shape: &[usize]) -> Option<u64> {
    is_countable(shape, size_of::<T>()).then(|| (size_of::<T>() * shape.iter().product::<usize>()) as u64)
}

/// Fills `bytes` from a position of the file on, and returns their number, which is less at the end of the file.
fn read_up_to(file: &File, bytes: &mut [u8], position: u64) -> io::Result<usize> {
    let mut len = 0;
    while len < bytes.len() {
        match file.read_at(&mut bytes[len..], position + len as u64)? {
            0 => break,
            more => len += more,
        }
    }
    Ok(len)
}

fn system(error: &io::Error) -> String {
    use io::ErrorKind::{FileTooLarge, InvalidInput, IsADirectory, NotSeekable, QuotaExceeded, StorageFull};
    let hint = match error.kind() {
        FileTooLarge | QuotaExceeded | StorageFull => "a smaller array, or another file system",
        InvalidInput | IsADirectory | NotSeekable => "a regular file",
        _ => "a file that this process may read and write",
    };
    format!("{error}; try {hint}")
}

impl Runtime {
    /// Opens a `.npy` file as a single data object; see [`ArrayFile::open`] and [`open_rows`](Self::open_rows).
    ///
    /// # Errors
    /// As for these methods.
    pub fn open_array<T: DlElement, S: Shape>(&self, path: impl AsRef<Path>) -> Result<FileArray<T, S>, FileError> {
        let file = ArrayFile::open(path)?;
        self.open_rows(&file, 0..file.shape[0])
    }

    /// Registers rows of a file as a data object in place. They are read before the first task that needs them, and
    /// evicted to the file, as a whole, if host memory is short
    /// ([`Builder::host_memory`](crate::Builder::host_memory)). The file has the last values only after
    /// [`FileArray::save`]. Until then, its content is that of earlier or later tasks.
    ///
    /// Only this runtime may change the rows. A checksum detects other changes, if they come after the first write.
    ///
    /// # Errors
    /// Fails if there are no such rows, if they exceed the limit of host memory together, if the same `ArrayFile` has
    /// already opened some of them, or if the runtime has no limit of host memory.
    pub fn open_rows<T: DlElement, S: Shape>(
        &self,
        file: &ArrayFile<T, S>,
        rows: Range<usize>,
    ) -> Result<FileArray<T, S>, FileError> {
        let ArrayFile { opened, shape, .. } = file;
        let refuse = |problem: String| Err(FileError::new("open", opened.user.path.clone(), problem));
        let has_disk = self.door.driver.lets_homes_leave();
        let Some(threads) = self.door.driver.real().filter(|_| has_disk) else {
            return refuse("the runtime keeps all arrays in memory; try `host_memory` and `spill_to`".to_owned());
        };
        if rows.start > rows.end || rows.end > shape[0] {
            return refuse(format!("it has no rows {rows:?}; try rows inside 0..{}", shape[0]));
        }
        let row_bytes = (size_of::<T>() * shape[1..].iter().product::<usize>()) as u64;
        let (bytes, limit) = (row_bytes * rows.len() as u64, self.machine().capacity_bytes(SpaceId::HOST));
        if bytes > limit {
            return refuse(format!(
                "rows {rows:?} have {bytes} bytes, and host memory is limited to {limit}; try fewer rows at a time"
            ));
        }
        let mut taken = opened.rows.lock();
        if let Some(other) = taken.iter().find(|other| other.start < rows.end && rows.start < other.end) {
            return refuse(format!(
                "rows {other:?} are a data object already, which rows {rows:?} overlap; try that one, or opening the \
                 file again after `save`"
            ));
        }
        taken.push(rows.clone());
        drop(taken);
        let mut extents = S::zeros(shape.len());
        extents.slice_mut().copy_from_slice(shape);
        extents[0] = rows.len();
        let (data, first) = (self.zeros(extents), opened.first + row_bytes * rows.start as u64);
        let datum: &Datum = &data.cell.datum;
        if datum.bytes() > 0 {
            threads.open(datum, opened.user.clone(), first);
        }
        Ok(FileArray { data, opened: opened.clone(), first })
    }
}

impl<T: Element, S: Shape> FileArray<T, S> {
    /// Submits a task that writes the rows to their file and waits until the disk has them. If it cannot, the task
    /// fails.
    ///
    /// # Errors
    /// As for [`TaskBuilder::submit`](crate::TaskBuilder::submit).
    #[track_caller]
    pub fn save(&self, rt: &Runtime) -> Result<TaskId, SubmitError> {
        let (opened, first) = (self.opened.clone(), self.first);
        let body = move |_: &crate::Context, view: S::View<'_, T>| {
            let view: ArrayView<'_, T, S> = view.into();
            let elements = view.as_slice().expect("the home of a file is contiguous");
            let file = &opened.user.file;
            file.write_all_at(bytemuck::cast_slice(elements), first)?;
            file.sync_data()
        };
        rt.task("save", self.data.input()).host(body).submit()
    }
}

impl<T, S: Shape> Deref for FileArray<T, S> {
    type Target = Data<T, S>;

    fn deref(&self) -> &Data<T, S> {
        &self.data
    }
}

impl<T, S> fmt::Debug for ArrayFile<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArrayFile").field("path", &self.opened.user.path).field("shape", &self.shape).finish()
    }
}

impl<T, S: Shape> fmt::Debug for FileArray<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileArray")
            .field("path", &self.opened.user.path)
            .field("first", &self.first)
            .finish_non_exhaustive()
    }
}
