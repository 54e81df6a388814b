//! Installations of CUDA in which NVRTC and headers are found: toolkits, conda environments, and Python packages.
//!
//! An installation is a folder with libraries and headers in subfolders. Python packages are several installations
//! side by side, one for each part of CUDA, or one for all parts since CUDA 13.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

const LIBRARIES: [&str; 4] = ["lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"];
const HEADERS: [&str; 3] = ["include", "targets/x86_64-linux/include", "targets/sbsa-linux/include"];

/// The installations in the order in which they are searched.
pub(super) struct Installed {
    folders: Vec<PathBuf>,
    /// The places that were searched, for messages.
    looked_in: Vec<String>,
}

impl Installed {
    /// Searches the places that the environment names, and the usual ones.
    pub(super) fn find() -> Self {
        Self::find_by(|name| std::env::var_os(name).filter(|value| !value.is_empty()), Path::new("/"))
    }

    fn find_by(variable: impl Fn(&str) -> Option<OsString>, root: &Path) -> Self {
        let mut this = Self { folders: Vec::new(), looked_in: Vec::new() };
        let mut prefixes = Vec::new();
        for name in ["CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX", "VIRTUAL_ENV"] {
            let folder = variable(name).map(PathBuf::from);
            let value = folder.as_ref().map_or_else(|| "unset".to_owned(), |folder| folder.display().to_string());
            this.looked_in.push(format!("{name} ({value})"));
            prefixes.extend(folder.clone().filter(|_| !name.starts_with("CUDA")));
            this.folders.extend(folder);
        }
        prefixes.extend(variable("HOME").map(|home| Path::new(&home).join(".local")));
        prefixes.extend([root.join("usr/local"), root.join("usr")]);
        let paths = variable("PYTHONPATH").unwrap_or_default();
        let packages = std::env::split_paths(&paths).filter(|path| !path.as_os_str().is_empty());
        for packages in packages.chain(prefixes.iter().flat_map(|prefix| python_packages(prefix))) {
            let parts = subfolders(&packages.join("nvidia"), "");
            this.looked_in.extend((!parts.is_empty()).then(|| packages.join("nvidia").display().to_string()));
            this.folders.extend(parts);
        }
        this.looked_in
            .push("the packages of Python 3 in active environments, ~/.local, /usr/local and /usr".to_owned());
        for (parent, prefix) in [("usr/local", "cuda"), ("opt", "cuda")] {
            this.looked_in.push(format!("/{parent}/{prefix}*"));
            this.folders.extend(subfolders(&root.join(parent), prefix));
        }
        this
    }

    /// Returns the first library that has one of these file names, of which earlier ones are preferred within an
    /// installation.
    pub(super) fn library(&self, names: &[&str]) -> Option<PathBuf> {
        let folders = self.folders.iter().flat_map(|folder| LIBRARIES.map(|part| folder.join(part)));
        folders.flat_map(|folder| names.iter().map(move |name| folder.join(name))).find(|path| path.is_file())
    }

    /// Returns the folders with CUDA's headers and the C++ libraries that come with them. Those of the installation
    /// that contains `library` and of the packages beside it come first, because their release is the same.
    pub(super) fn headers(&self, library: Option<&Path>) -> Vec<PathBuf> {
        let above = || library.into_iter().flat_map(Path::ancestors);
        let is_own = |folder: &&Path| {
            let folder_of_library = library.and_then(Path::parent);
            LIBRARIES.iter().any(|part| folder_of_library == Some(&folder.join(part)))
        };
        let own = above().filter(is_own).map(Path::to_owned);
        let packages =
            above().filter(|folder| folder.ends_with("nvidia")).flat_map(|packages| subfolders(packages, ""));
        let mut found: Vec<PathBuf> = Vec::new();
        for folder in own.chain(packages).chain(self.folders.iter().cloned()) {
            for headers in HEADERS.map(|part| folder.join(part)) {
                for folder in [headers.clone(), headers.join("cccl")] {
                    let has_headers = folder.join("cuda_fp16.h").is_file() || folder.join("cuda/std").is_dir();
                    if has_headers && !found.contains(&folder) {
                        found.push(folder);
                    }
                }
            }
        }
        found
    }

    /// Returns a list of the places that were searched.
    pub(super) fn looked_in(&self) -> String {
        self.looked_in.join(", ")
    }
}

/// Returns the folders of Python's packages in an environment.
fn python_packages(prefix: &Path) -> Vec<PathBuf> {
    let pythons = subfolders(&prefix.join("lib"), "python3");
    let packages =
        pythons.into_iter().flat_map(|python| ["site-packages", "dist-packages"].map(|name| python.join(name)));
    packages.filter(|folder| folder.is_dir()).collect()
}

/// Returns the subfolders whose names begin with `prefix`. A name without a version comes first, then the newest.
fn subfolders(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_named = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix));
    let mut found: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(is_named).filter(|path| path.is_dir()).collect();
    found.sort_by_key(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let version: Vec<u32> =
            name.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect();
        (!version.is_empty(), std::cmp::Reverse(version), name)
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Creates empty files, and finds installations among them, with these variables set to folders.
    fn find(files: &[&str], variables: &[(&str, &str)]) -> (tempfile::TempDir, Installed) {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            fs::create_dir_all(root.path().join(file).parent().unwrap()).unwrap();
            fs::write(root.path().join(file), "").unwrap();
        }
        let value =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, folder)| root.path().join(folder));
        let found = Installed::find_by(|name| value(name).map(PathBuf::into_os_string), root.path());
        (root, found)
    }

    const NAMES: [&str; 2] = ["libnvrtc.so.13", "libnvrtc.so.12"];

    #[test]
    fn libraries_are_found_wherever_they_are_installed() {
        let wheel = "home/.local/lib/python3.12/site-packages/nvidia/cu13/lib/libnvrtc.so.13";
        for (file, variables) in [
            ("toolkit/lib64/libnvrtc.so.13", [("CUDA_HOME", "toolkit")]),
            ("toolkit/targets/x86_64-linux/lib/libnvrtc.so.12", [("CUDA_PATH", "toolkit")]),
            ("conda/lib/libnvrtc.so.12", [("CONDA_PREFIX", "conda")]),
            ("conda/lib/python3.9/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12", [("CONDA_PREFIX", "conda")]),
            ("venv/lib/python3.11/site-packages/nvidia/cu13/lib/libnvrtc.so.13", [("VIRTUAL_ENV", "venv")]),
            (wheel, [("HOME", "home")]),
            ("packages/nvidia/cu13/lib/libnvrtc.so.13", [("PYTHONPATH", "packages")]),
            ("usr/lib/python3/dist-packages/nvidia/cu13/lib/libnvrtc.so.13", [("HOME", "none")]),
            ("usr/local/cuda/lib64/libnvrtc.so.13", [("HOME", "none")]),
            ("usr/local/cuda-13.0/lib64/libnvrtc.so.13", [("HOME", "none")]),
            ("opt/cuda/lib64/libnvrtc.so.13", [("HOME", "none")]),
        ] {
            let (root, found) = find(&[file, "usr/lib/libother.so"], &variables);
            assert_eq!(found.library(&NAMES), Some(root.path().join(file)));
        }
        let (_, none) = find(&[], &[("CUDA_HOME", "nowhere")]);
        assert_eq!(none.library(&NAMES), None);
        let places = none.looked_in();
        assert!(places.contains("CUDA_HOME (/") && places.contains("CONDA_PREFIX (unset)"), "{places}");
    }

    #[test]
    fn named_installation_precedes_the_newest() {
        let files = ["usr/local/cuda-9.2/lib64/libnvrtc.so.12", "usr/local/cuda-12.8/lib64/libnvrtc.so.12"];
        let (root, found) = find(&files, &[]);
        assert_eq!(found.library(&NAMES), Some(root.path().join(files[1])));
        let (root, found) = find(&[files[0], files[1], "mine/lib/libnvrtc.so.12"], &[("CUDA_HOME", "mine")]);
        assert_eq!(found.library(&NAMES), Some(root.path().join("mine/lib/libnvrtc.so.12")));
    }

    #[test]
    fn headers_of_the_same_installation_come_first() {
        let packages = "venv/lib/python3.11/site-packages/nvidia";
        let library = format!("{packages}/cuda_nvrtc/lib/libnvrtc.so.12");
        let header = format!("{packages}/cuda_runtime/include/cuda_fp16.h");
        let files =
            [&library, &header, "usr/local/cuda/include/cuda_fp16.h", "usr/local/cuda/include/cccl/cuda/std/version"];
        let (root, found) = find(&files, &[]);
        let of = |path: &str| root.path().join(path);
        let expected =
            [&format!("{packages}/cuda_runtime/include"), "usr/local/cuda/include", "usr/local/cuda/include/cccl"];
        assert_eq!(found.headers(Some(&of(&library))), expected.map(of));
        assert_eq!(
            found.headers(Some(&of("usr/local/cuda/lib64/libnvrtc.so.13"))),
            expected[1..].iter().map(|f| of(f)).collect::<Vec<_>>()
        );
    }
}
