//! What is in a MovieLens folder? Ratings, films and users, in the old form (`ratings.dat`, fields
//! parted by `::`, Latin-1) or the new one (`ratings.csv`, UTF-8). A rating is an exposure.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use cadet::log::Columns;
use cadet::{At, Error, Result};

use crate::csv::{Dialect, read_row};

/// A film.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Title {
    /// Its id in the ratings.
    pub movie_id: i64,
    /// Its title, with the year.
    pub title: String,
    /// Its genres.
    pub genres: Vec<String>,
}

/// What is known about a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Their id in the ratings.
    pub user_id: i64,
    /// `F` or `M`.
    pub gender: String,
    /// The youngest age of their group: 1, 18, 25, 35, 45, 50 or 56.
    pub age: u32,
    /// Their occupation's number, 0 to 20.
    pub occupation: u32,
    /// Their zip code.
    pub zip: String,
}

const LARGEST_FILE: u64 = 256 << 20;

pub(crate) fn csv_columns() -> Columns {
    Columns { user: "userId".to_owned(), item: "movieId".to_owned(), ..Columns::default() }
}

/// The ratings in a MovieLens folder, and whether they are in the old form.
pub(crate) fn ratings(folder: &Path) -> Option<(PathBuf, bool)> {
    let old = folder.join("ratings.dat");
    if old.is_file() {
        return Some((old, true));
    }
    let new = folder.join("ratings.csv");
    let mut start = Vec::new();
    File::open(&new).ok()?.take(15).read_to_end(&mut start).ok()?;
    (start == b"userId,movieId,").then_some((new, false))
}

/// Whether this is a MovieLens folder.
pub fn is_folder(path: &Path) -> bool {
    ratings(path).is_some()
}

/// The films of a MovieLens folder; none where the folder has no list of them.
pub fn titles(folder: &Path) -> Result<Vec<Title>> {
    let split = |genres: &str| match genres {
        "(no genres listed)" | "" => Vec::new(),
        _ => genres.split('|').map(str::to_owned).collect(),
    };
    let old = folder.join("movies.dat");
    if old.is_file() {
        return old_rows(&old, 3, "MovieID::Title::Genres", |fields| {
            Some(Title {
                movie_id: fields[0].parse().ok()?,
                title: fields[1].to_owned(),
                genres: split(fields[2]),
            })
        });
    }
    let new = folder.join("movies.csv");
    if !new.is_file() {
        return Ok(Vec::new());
    }
    let text = String::from_utf8(read(&new)?).map_err(|e| {
        let at = At::Byte(e.utf8_error().valid_up_to() as u64);
        Error::data(&new, at, "not valid UTF-8: save the file as UTF-8")
    })?;
    new_titles(&new, text + "\n", split)
}

fn new_titles(path: &Path, text: String, split: impl Fn(&str) -> Vec<String>) -> Result<Vec<Title>> {
    let bytes = text.as_bytes();
    let mut titles = Vec::new();
    let (mut at, mut line) = (0, 1);
    while at < bytes.len() {
        let start = at;
        let mut fields = Vec::with_capacity(3);
        let row = read_row(bytes, &mut at, Dialect { delimiter: b',', quotes: true }, |_, field| {
            fields.push(field.text("a field").unwrap_or_default());
        });
        row.map_err(|fault| fault.at(path, At::Line(line)))?;
        let blank = matches!(&fields[..], [only] if only.is_empty());
        if line > 1 && !blank {
            let title = match &fields[..] {
                [id, title, genres] => id.parse().ok().map(|movie_id| Title {
                    movie_id,
                    title: title.to_string(),
                    genres: split(genres),
                }),
                _ => None,
            };
            titles.push(
                title.ok_or_else(|| Error::data(path, At::Line(line), "expected movieId,title,genres"))?,
            );
        }
        line += memchr::memchr_iter(b'\n', &bytes[start..at.min(bytes.len())]).count() as u64;
    }
    Ok(titles)
}

/// The users of a MovieLens folder; none where the folder says nothing about them.
pub fn users(folder: &Path) -> Result<Vec<User>> {
    let path = folder.join("users.dat");
    if !path.is_file() {
        return Ok(Vec::new());
    }
    old_rows(&path, 5, "UserID::Gender::Age::Occupation::Zip-code", |fields| {
        Some(User {
            user_id: fields[0].parse().ok()?,
            gender: fields[1].to_owned(),
            age: fields[2].parse().ok()?,
            occupation: fields[3].parse().ok()?,
            zip: fields[4].to_owned(),
        })
    })
}

/// What a user thought of a film.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rating {
    /// The user.
    pub user_id: i64,
    /// The film.
    pub movie_id: i64,
    /// From 1 to 5.
    pub stars: u8,
}

/// The ratings of a MovieLens folder in the old form, as they stand in `ratings.dat`.
pub fn stars(folder: &Path) -> Result<Vec<Rating>> {
    let path = folder.join("ratings.dat");
    old_rows(&path, 4, "UserID::MovieID::Rating::Timestamp, the rating from 1 to 5", |fields| {
        let stars = fields[2].parse().ok().filter(|stars| (1..=5).contains(stars))?;
        Some(Rating { user_id: fields[0].parse().ok()?, movie_id: fields[1].parse().ok()?, stars })
    })
}

/// Reads a small file whole, up to a limit.
fn read(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|e| Error::io(path, e))?;
    file.take(LARGEST_FILE).read_to_end(&mut bytes).map_err(|e| Error::io(path, e))?;
    match bytes.len() as u64 == LARGEST_FILE {
        true => Err(Error::data(path, At::File, "too large to be read whole")),
        false => Ok(bytes),
    }
}

fn old_rows<T>(
    path: &Path,
    fields: usize,
    shape: &str,
    row: impl Fn(&[&str]) -> Option<T>,
) -> Result<Vec<T>> {
    // Every Latin-1 byte is the Unicode character of the same number.
    let text: String = read(path)?.into_iter().map(char::from).collect();
    let mut rows = Vec::new();
    for (i, line) in text.split('\n').enumerate() {
        let line = line.strip_suffix('\r').unwrap_or(line);
        if line.is_empty() {
            continue;
        }
        let found: Vec<&str> = line.split("::").collect();
        let read = if found.len() == fields { row(&found) } else { None };
        rows.push(
            read.ok_or_else(|| Error::data(path, At::Line(i as u64 + 1), format!("expected {shape}")))?,
        );
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ReadOptions, read_exposures};
    use cadet::IdRef;

    #[test]
    fn the_old_form() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &[u8]| std::fs::write(dir.path().join(name), text).unwrap();
        put("ratings.dat", b"1::90::5::1000000000\n1::77::3::1000000001\n2::90::4::1000000002\n");
        put("users.dat", b"1::M::18::3::12345\r\n2::F::56::7::01234\r\n");
        put("movies.dat", b"90::Caf\xe9, The Invented (1999)::Drama|Musical\n");
        let paths = [dir.path().to_owned()];
        let log = read_exposures(&paths, &ReadOptions::default(), &|_| {}).unwrap();
        let rows = log.report.rows;
        let log = log.log;
        assert_eq!((rows, log.users.len(), log.items.len()), (3, 2, 2));
        assert_eq!(log.items.name(1), IdRef::Int(77));
        let titles = titles(dir.path()).unwrap();
        assert_eq!(titles[0].title, "Café, The Invented (1999)");
        assert_eq!(titles[0].genres, ["Drama", "Musical"]);
        let users = users(dir.path()).unwrap();
        assert_eq!((users[1].age, users[1].zip.as_str()), (56, "01234"));
        put("ratings.dat", b"1::90::5::1000000000\n1::77::3\n");
        let error = read_exposures(&paths, &ReadOptions::default(), &|_| {}).unwrap_err();
        assert!(
            error.to_string().ends_with("ratings.dat line 2: expected UserID::MovieID::Rating::Timestamp"),
            "{error}"
        );
    }

    #[test]
    fn the_new_form() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        put("ratings.csv", "userId,movieId,rating,timestamp\n1,90,5.0,1000000000\n");
        put("tags.csv", "userId,movieId,tag,timestamp\n");
        put("movies.csv", "movieId,title,genres\n90,\"Café, The Invented (1999)\",Comedy|Drama\n");
        let log = read_exposures(&[dir.path().to_owned()], &ReadOptions::default(), &|_| {}).unwrap();
        assert_eq!((log.report.rows, log.report.sources.len()), (1, 1));
        assert_eq!(titles(dir.path()).unwrap()[0].title, "Café, The Invented (1999)");
        assert!(users(dir.path()).unwrap().is_empty());
    }
}
