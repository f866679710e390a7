//! `sysdyno launch`: the measuring side of a run. Not for people.

use crate::conduct::serve;

use super::{DONE, Failure};

pub(super) fn launch() -> Result<u8, Failure> {
    serve::serve(std::io::stdin().lock(), &mut std::io::stdout().lock()).map_err(Failure::while_working)?;
    Ok(DONE)
}
