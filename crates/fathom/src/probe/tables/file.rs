//! A file of rows on disk.

use fathom_recording::peers::RowFormat;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Longer than any row.
const ROW: u64 = 4_096;

/// See the module.
pub(super) struct TableFile {
    path: PathBuf,
    format: RowFormat,
    header: String,
    out: Writer,
    /// Length of the file before this run; `None`: this run created it, or it is no regular file.
    before: Option<u64>,
}

/// Writes into the file that is open now.
#[derive(Clone)]
pub(super) struct Writer(Arc<Mutex<BufWriter<File>>>);

impl Writer {
    fn lock(&self) -> MutexGuard<'_, BufWriter<File>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.lock().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.lock().flush()
    }
}

impl TableFile {
    /// Opens a file to append rows; a new one gets the header. An existing device or pipe (`/dev/stdout`) is written
    /// to.
    pub(super) fn open(path: &Path, format: RowFormat, header: String) -> io::Result<Self> {
        let (file, before) = begun(path, format, &header)?;
        let out = Writer(Arc::new(Mutex::new(file)));
        Ok(Self { path: path.to_owned(), format, header, out, before })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn writer(&self) -> Writer {
        self.out.clone()
    }

    /// Continues in the file that has the name now; buffered rows must be flushed before.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        if is_no_file(&self.path) {
            return Ok(());
        }
        let (file, before) = begun(&self.path, self.format, &self.header)?;
        *self.out.lock() = file;
        self.before = before;
        Ok(())
    }

    pub(super) fn take_back(self) {
        if is_no_file(&self.path) {
            return;
        }
        // Buffered rows are dropped, too.
        let _ = self.out.lock().flush();
        // An extra header does no harm.
        let _ = match self.before {
            Some(bytes) => self.out.lock().get_ref().set_len(bytes),
            None => std::fs::remove_file(&self.path),
        };
    }
}

/// The file with its header, and its length before; `None`: it is new.
fn begun(path: &Path, format: RowFormat, header: &str) -> io::Result<(BufWriter<File>, Option<u64>)> {
    if is_no_file(path) {
        let mut out = BufWriter::new(OpenOptions::new().write(true).open(path)?);
        out.write_all(header.as_bytes())?;
        return Ok((out, None));
    }
    let is_new = !path.exists();
    let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
    let length = file.metadata()?.len();
    let mut first = Vec::new();
    Read::by_ref(&mut file).take(header.len() as u64).read_to_end(&mut first)?;
    let whole = if header.as_bytes().starts_with(&first) && first.len() < header.len() {
        // True if the file is empty, or its header was cut off.
        0
    } else if first.starts_with(format.beginning().as_bytes()) {
        whole_lines(&mut file, length)?
    } else {
        let line = format.beginning().trim_end();
        return Err(io::Error::other(format!("it holds something else: it does not begin with {line:?}")));
    };
    if whole < length {
        file.set_len(whole)?;
    }
    let mut out = BufWriter::new(file);
    if whole == 0 || format.repeats_header() {
        out.write_all(header.as_bytes())?;
    }
    Ok((out, (!is_new).then_some(whole)))
}

/// The length without the row that was cut off when its writer was killed.
fn whole_lines(file: &mut File, length: u64) -> io::Result<u64> {
    let from = length.saturating_sub(ROW);
    file.seek(SeekFrom::Start(from))?;
    let mut last = Vec::new();
    file.read_to_end(&mut last)?;
    let end = last.iter().rposition(|byte| *byte == b'\n').map_or(last.len(), |at| at + 1);
    Ok(from + end as u64)
}

fn is_no_file(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_recording::peers::Run;
    use std::fs;

    const CSV: RowFormat = RowFormat::EchoClientCsv;
    const LOG: RowFormat = RowFormat::SockperfLog;

    fn open(path: &Path, format: RowFormat) -> io::Result<TableFile> {
        TableFile::open(path, format, format.header(&Run::default()))
    }

    fn append(file: &TableFile, row: &str) {
        let mut writer = file.writer();
        writer.write_all(row.as_bytes()).and_then(|()| writer.flush()).expect("written");
    }

    /// A file before and after a run that writes one row.
    #[test]
    fn rows_follow_what_is_there() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("rows");
        let header = |format: RowFormat| format.header(&Run::default());
        for (format, before, kept) in [
            (CSV, String::new(), header(CSV)),
            (CSV, header(CSV), header(CSV)),
            (CSV, header(CSV)[..9].to_owned(), header(CSV)),
            (CSV, header(CSV) + "1,a\n", header(CSV) + "1,a\n"),
            (CSV, header(CSV) + "1,a\n2,", header(CSV) + "1,a\n"),
            (LOG, String::new(), header(LOG)),
            (LOG, header(LOG) + "0, 1\n", header(LOG) + "0, 1\n" + &header(LOG)),
        ] {
            fs::write(&path, &before).expect("written");
            append(&open(&path, format).expect("opened"), "row\n");
            assert_eq!(fs::read_to_string(&path).expect("rows"), kept + "row\n", "{before:?}");
        }
    }

    #[test]
    fn file_of_something_else_is_refused() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("rows");
        for (format, before) in [(CSV, "sent_ns,rtt_ns\n1,2\n"), (CSV, "x"), (LOG, "notes\n")] {
            fs::write(&path, before).expect("written");
            let error = open(&path, format).err().expect("refused").to_string();
            assert!(error.contains("it holds something else"), "{error}");
            assert_eq!(fs::read_to_string(&path).expect("text"), before);
        }
    }

    #[test]
    fn reopening_goes_on_in_new_file() {
        let home = tempfile::tempdir().expect("a directory");
        let (path, old) = (home.path().join("rows"), home.path().join("rows.1"));
        let mut file = open(&path, CSV).expect("opened");
        append(&file, "1\n");
        fs::rename(&path, &old).expect("rotated");
        append(&file, "2\n");
        file.reopen().expect("reopened");
        append(&file, "3\n");
        let header = CSV.header(&Run::default());
        assert_eq!(fs::read_to_string(&old).expect("rows"), format!("{header}1\n2\n"));
        assert_eq!(fs::read_to_string(&path).expect("rows"), format!("{header}3\n"));
    }

    #[test]
    fn run_without_samples_changes_no_file() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("rows");
        open(&path, LOG).expect("opened").take_back();
        assert!(!path.exists());
        let before = LOG.header(&Run::default()) + "0, 1\n";
        fs::write(&path, &before).expect("written");
        open(&path, LOG).expect("opened").take_back();
        assert_eq!(fs::read_to_string(&path).expect("rows"), before);
    }
}
