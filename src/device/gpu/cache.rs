//! An on-disk cache of compiled programs, so that a program compiles once per machine rather than once per run.
//!
//! A file's name consists of two digests, which cover everything that determines the file's contents: one of target
//! and source, and one of compiler and options. So code for a target can be found even if no compiler is installed.
//! Each file contains a digest of its contents at the beginning. The cache folder is `THALWEG_CACHE_DIR` (empty: no
//! cache), or else `thalweg` in the XDG cache directory (`$XDG_CACHE_HOME`, or `~/.cache`).
//!
//! The cache never causes a failure: a program that cannot be read from the cache is compiled, and a failed write is
//! only logged. The cache removes no files except its own damaged files, which it replaces. Invariants:
//! 1. A file is complete when it appears under its final name, because it is written under another name and then
//!    renamed. So writers may race.
//! 2. A read returns exactly the contents that were written, or else the file counts as absent.

use sha2::{Digest, Sha256};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The first bytes of every file. They change with the file format.
const MAGIC: &[u8; 8] = b"thalweg1";
const DIGEST_BYTES: usize = 32;

/// The folder for compiled programs, if caching is enabled.
#[derive(Debug)]
pub(in crate::device) struct Cache {
    folder: Option<PathBuf>,
}

/// Everything that a compiled program depends on, apart from its source.
#[derive(Debug, Clone)]
pub(in crate::device) struct Recipe {
    /// The target architecture.
    pub(in crate::device) target: String,
    /// The compiler and its version.
    pub(in crate::device) compiler: String,
    /// The compiler's options.
    pub(in crate::device) options: Vec<String>,
}

impl Cache {
    /// Returns the cache that the environment configures.
    pub(in crate::device) fn from_environment() -> Self {
        Self::named(std::env::var_os("THALWEG_CACHE_DIR"))
    }

    /// Returns the cache in this folder, no cache for an empty name, or the user's cache for `None`.
    pub(in crate::device) fn named(folder: Option<OsString>) -> Self {
        let folder = match folder {
            Some(folder) if folder.is_empty() => None,
            Some(folder) => Some(PathBuf::from(folder)),
            None => users_own(std::env::var_os("XDG_CACHE_HOME"), std::env::home_dir()),
        };
        Self { folder }
    }

    /// Returns a compiled program from the cache, or compiles it and stores the result in the cache.
    ///
    /// # Errors
    /// Returns only errors from `compile`.
    pub(in crate::device) fn get_or_compile<E>(
        &self,
        recipe: &Recipe,
        source: &str,
        compile: impl FnOnce() -> Result<Vec<u8>, E>,
    ) -> Result<Vec<u8>, E> {
        let Some(folder) = &self.folder else { return compile() };
        let path = folder.join(name(recipe, source));
        if let Some(content) = read(&path) {
            return Ok(content);
        }
        let content = compile()?;
        if let Err(error) = write(folder, &path, &content) {
            log!(debug, "cannot write {}: {error}", path.display());
        }
        Ok(content)
    }

    /// Returns the newest code in the cache that any compiler has generated from this source for this target.
    pub(in crate::device) fn get_any(&self, target: &str, source: &str) -> Option<Vec<u8>> {
        let prefix = digest([target, source]);
        let files = fs::read_dir(self.folder.as_ref()?).ok()?.flatten();
        let made = files.filter(|file| file.file_name().to_string_lossy().starts_with(&prefix));
        let mut made: Vec<_> =
            made.map(|file| (file.metadata().and_then(|file| file.modified()).ok(), file.path())).collect();
        made.sort_unstable();
        made.iter().rev().find_map(|(_, path)| read(path))
    }
}

/// Returns the user's cache folder by the XDG Base Directory Specification, which ignores paths that are not
/// absolute.
fn users_own(xdg: Option<OsString>, home: Option<PathBuf>) -> Option<PathBuf> {
    let xdg = xdg.map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = xdg.or_else(|| home.filter(|path| path.is_absolute()).map(|home| home.join(".cache")));
    cache.map(|cache| cache.join("thalweg"))
}

fn name(recipe: &Recipe, source: &str) -> String {
    let made_by = [recipe.compiler.as_str()].into_iter().chain(recipe.options.iter().map(String::as_str));
    format!("{}-{}", digest([recipe.target.as_str(), source]), digest(made_by))
}

/// Computes the digest of a list of texts. The length of each text is hashed before the text, so that different lists
/// never produce the same hash input.
fn digest<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let mut hasher = Sha256::new();
    for text in texts {
        hasher.update((text.len() as u64).to_le_bytes());
        hasher.update(text);
    }
    hasher.finalize()[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

fn read(path: &Path) -> Option<Vec<u8>> {
    let mut content = fs::read(path).ok()?;
    let head = content.get(..MAGIC.len() + DIGEST_BYTES)?;
    let (magic, digest) = head.split_at(MAGIC.len());
    if magic != MAGIC || digest != &Sha256::digest(&content[head.len()..])[..] {
        log!(debug, "{} is damaged; it will be replaced", path.display());
        return None;
    }
    content.drain(..MAGIC.len() + DIGEST_BYTES);
    Some(content)
}

fn write(folder: &Path, path: &Path, content: &[u8]) -> io::Result<()> {
    static WRITTEN: AtomicU64 = AtomicU64::new(0);
    fs::create_dir_all(folder)?;
    // Several names are tried, because a killed process may have left a file of this name behind, or another machine
    // that shares the folder may be using the name.
    let names = (0..100).map(|_| format!("{}-{}.new", std::process::id(), WRITTEN.fetch_add(1, Ordering::Relaxed)));
    let (mut file, new) = create_new(folder, names)?;
    let written = [MAGIC, &Sha256::digest(content)[..], content].into_iter().try_for_each(|part| file.write_all(part));
    let kept = written.and_then(|()| fs::rename(&new, path));
    if kept.is_err() {
        let _ = fs::remove_file(&new); // only the first error is returned
    }
    kept
}

/// Creates a new file under the first of these names that does not exist yet.
fn create_new(folder: &Path, names: impl Iterator<Item = String>) -> io::Result<(File, PathBuf)> {
    let mut taken = io::Error::from(io::ErrorKind::AlreadyExists);
    for name in names {
        let path = folder.join(name);
        match File::create_new(&path) {
            Ok(file) => return Ok((file, path)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => taken = error,
            Err(error) => return Err(error),
        }
    }
    Err(taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn cache() -> (tempfile::TempDir, Cache) {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache { folder: Some(folder.path().join("made/when/needed")) };
        (folder, cache)
    }

    fn recipe(options: &[&str]) -> Recipe {
        let target = "sm_90".to_owned();
        Recipe { target, compiler: "compiler 1.0".to_owned(), options: options.iter().map(|&o| o.to_owned()).collect() }
    }

    /// Returns the contents that the cache provides, and whether the program was compiled.
    fn get(cache: &Cache, recipe: &Recipe, source: &str, compiled: &[u8]) -> (Vec<u8>, bool) {
        let mut called = false;
        let compile = || {
            called = true;
            Ok::<_, Infallible>(compiled.to_vec())
        };
        let content = cache.get_or_compile(recipe, source, compile).unwrap();
        (content, called)
    }

    fn only_file(cache: &Cache) -> PathBuf {
        let files: Vec<_> = fs::read_dir(cache.folder.as_ref().unwrap()).unwrap().map(|f| f.unwrap().path()).collect();
        assert_eq!(files.len(), 1, "{files:?}");
        files[0].clone()
    }

    #[test]
    fn folder_is_the_named_one_or_the_users() {
        assert_eq!(Cache::named(Some("here".into())).folder, Some("here".into()));
        assert_eq!(Cache::named(Some("".into())).folder, None);
        assert!(Cache::named(None).folder.is_none_or(|folder| folder.ends_with("thalweg")));
        let of = |xdg: Option<&str>, home: Option<&str>| users_own(xdg.map(OsString::from), home.map(PathBuf::from));
        assert_eq!(of(Some("/cache"), Some("/home")), Some("/cache/thalweg".into()));
        for unset in [None, Some(""), Some("relative")] {
            assert_eq!(of(unset, Some("/home")), Some("/home/.cache/thalweg".into()));
            assert_eq!(of(unset, unset), None, "never in the current folder");
        }
    }

    #[test]
    fn existing_files_are_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let names = || ["a", "b"].map(str::to_owned).into_iter();
        for free in ["a", "b"] {
            let (mut file, path) = create_new(folder.path(), names()).unwrap();
            assert_eq!(path, folder.path().join(free));
            file.write_all(free.as_bytes()).unwrap();
        }
        assert_eq!(create_new(folder.path(), names()).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(folder.path().join("a")).unwrap(), b"a");

        // A file that cannot be renamed is not left behind either.
        let target = folder.path().join("target");
        fs::create_dir_all(target.join("in the way")).unwrap();
        write(folder.path(), &target, b"content").unwrap_err();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
    }

    #[test]
    fn cached_program_compiles_once() {
        let (_folder, cache) = cache();
        let recipe = recipe(&["sm_90"]);
        assert_eq!(get(&cache, &recipe, "source", b"object"), (b"object".to_vec(), true));
        assert_eq!(get(&cache, &recipe, "source", b"other"), (b"object".to_vec(), false));
        assert_eq!(get(&cache, &recipe, "", b""), (Vec::new(), true));
        assert_eq!(get(&cache, &recipe, "", b"other"), (Vec::new(), false));
    }

    #[test]
    fn names_differ_by_target_source_compiler_and_options() {
        let one = name(&recipe(&["ab", "c"]), "source");
        assert_eq!(one, name(&recipe(&["ab", "c"]), "source"));
        assert_eq!(one.len(), 65);
        let newer = Recipe { compiler: "compiler 1.1".to_owned(), ..recipe(&["ab", "c"]) };
        let elsewhere = Recipe { target: "sm_80".to_owned(), ..recipe(&["ab", "c"]) };
        for other in [
            name(&elsewhere, "source"),
            name(&recipe(&["a", "bc"]), "source"),
            name(&newer, "source"),
            name(&recipe(&["ab", "c"]), "Source"),
        ] {
            assert_ne!(one, other);
        }
    }

    #[test]
    fn cached_code_is_found_without_compiler() {
        let (_folder, cache) = cache();
        assert_eq!(cache.get_any("sm_90", "source"), None);
        get(&cache, &recipe(&["ab"]), "source", b"object");
        assert_eq!(cache.get_any("sm_90", "source"), Some(b"object".to_vec()));
        assert_eq!((cache.get_any("sm_80", "source"), cache.get_any("sm_90", "Source")), (None, None));
        fs::write(only_file(&cache), "damaged").unwrap();
        assert_eq!(cache.get_any("sm_90", "source"), None);
    }

    #[test]
    fn damaged_files_are_replaced() {
        let (_folder, cache) = cache();
        let recipe = recipe(&[]);
        get(&cache, &recipe, "source", b"object");
        let path = only_file(&cache);
        let good = fs::read(&path).unwrap();
        let altered = |at: usize| {
            let mut bytes = good.clone();
            bytes[at] ^= 1;
            bytes
        };
        let longer = [&good[..], b"!"].concat();
        let short = (0..good.len()).map(|len| good[..len].to_vec());
        for bad in short.chain((0..good.len()).map(altered)).chain([longer]) {
            fs::write(&path, &bad).unwrap();
            assert_eq!(get(&cache, &recipe, "source", b"object"), (b"object".to_vec(), true), "{bad:?}");
            assert_eq!(fs::read(&path).unwrap(), good);
        }
    }

    #[test]
    fn racing_writers_leave_complete_files() {
        let (_folder, cache) = cache();
        let recipe = recipe(&[]);
        let object: Vec<u8> = (0..1 << 16).map(|n| n as u8).collect();
        let barrier = std::sync::Barrier::new(8);
        std::thread::scope(|scope| {
            for writer in 0..8 {
                let (cache, recipe, object, barrier) = (&cache, &recipe, &object, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    for round in 0..20 {
                        let source = format!("source {}", round % 3);
                        assert_eq!(get(cache, recipe, &source, object).0, *object);
                        if writer == 0 {
                            let _ = fs::remove_file(cache.folder.as_ref().unwrap().join(name(recipe, &source)));
                        }
                    }
                });
            }
        });
        for file in fs::read_dir(cache.folder.as_ref().unwrap()).unwrap() {
            assert_eq!(read(&file.unwrap().path()).as_ref(), Some(&object), "nothing half-written is left behind");
        }
    }

    #[test]
    fn cache_without_folder_compiles_every_time() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a file");
        fs::write(&file, "in the way").unwrap();
        for folder in [None, Some(file.join("below"))] {
            let cache = Cache { folder };
            for _ in 0..2 {
                assert_eq!(get(&cache, &recipe(&[]), "source", b"object"), (b"object".to_vec(), true));
            }
        }
    }

    #[test]
    fn compile_error_is_returned_and_not_cached() {
        let (_folder, cache) = cache();
        assert_eq!(cache.get_or_compile(&recipe(&[]), "source", || Err("no")), Err("no"));
        assert_eq!(get(&cache, &recipe(&[]), "source", b"object"), (b"object".to_vec(), true));
    }
}
