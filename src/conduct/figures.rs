//! Figures as files next to a report. A directory that another user prepared may hold links under any of their names. No link is
//! followed, and nothing is written beyond the folder.

use std::fs;
use std::io;
use std::path::Path;

use crate::report::markdown;
use crate::report::page::Page;
use crate::results::problem::Problem;
use crate::sys::create::{self, Access};

/// Folder of the figures, as reports link it.
const FOLDER: &str = "figures";

/// Writes every drawing of a report below a directory. Each file is whole, or it is not written.
pub fn write(beside: &Path, page: &Page) -> Result<(), Problem> {
    let folder = beside.join(FOLDER);
    let unwritable = |path: &Path, error: &io::Error| {
        Problem::new(format!("cannot write {}: {error}", path.display()))
            .hint("the log is complete. `sysdyno report DIR -o FILE` writes the figures next to FILE")
    };
    prepare(&folder).map_err(|error| unwritable(&folder, &error))?;
    for (name, svg) in markdown::drawings(page) {
        let place = folder.join(&name);
        create::whole(&place, Access::Shared, &svg).map_err(|error| unwritable(&place, &error))?;
    }
    Ok(())
}

/// The folder, which has to be a directory itself and no link to one.
fn prepare(folder: &Path) -> io::Result<()> {
    create::own_directory(folder)?;
    if fs::symlink_metadata(folder)?.is_dir() {
        return Ok(());
    }
    Err(io::Error::other("it is a link, and a report writes only inside its own directory"))
}
