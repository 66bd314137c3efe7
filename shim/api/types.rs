// C types, as `functions.txt` and each `mpi.h` write them, and the types that names of arguments imply. For `functions.rs`.

use std::collections::HashMap;
use std::fmt;

/// The C name of a function or a type of MPI that the table has by what follows `MPI`, and `MPI_` for the most part.
pub fn in_full(name: &str) -> String {
    let extension = ["X_", "L_", "O_", "R_"].iter().any(|prefix| name.starts_with(prefix));
    format!("MPI{}{name}", if extension { "" } else { "_" })
}

/// A C type, as far as a call depends on it.
#[derive(Clone, Default, Debug)]
pub struct Type {
    /// `int`, `MPI_Comm`, …
    pub of: String,
    /// The number of `*` and `[]`.
    pub depth: usize,
    pub is_array: bool,
    pub is_const: bool,
}

impl Type {
    /// Parses a C type without a name.
    pub fn c(declared: &str) -> Type {
        let is_array = declared.contains('[');
        let depth = declared.matches(['*', '[']).count();
        let words = declared.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        // The 3 of `int[][3]` is not a word of the type.
        let words = words.filter(|w| w.starts_with(|c: char| !c.is_ascii_digit()));
        let (qualifiers, of): (Vec<_>, Vec<_>) =
            words.partition(|w| ["const", "restrict", "struct", "extern", "static", "inline"].contains(w));
        Type { of: of.join(" "), depth, is_array, is_const: qualifiers.contains(&"const") }
    }

    /// From what stands in the table: MPI's own are those with a capital.
    pub fn short(said: &str) -> Result<Type, String> {
        let mut it = Type::c(said);
        if it.of.starts_with(char::is_uppercase) {
            it.of = in_full(&it.of);
        }
        if it.of.is_empty() { Err(format!("no type: {said:?}")) } else { Ok(it) }
    }

    /// Whether calls by a prototype with the other type pass the same. `const` may be missing there: MPI-2 had none.
    pub fn allows(&self, header: &Type) -> bool {
        (&self.of, self.depth) == (&header.of, header.depth) && self.is_const >= header.is_const
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", if self.is_const { "const " } else { "" }, self.of, "*".repeat(self.depth))
    }
}

/// What the names of arguments tell: the type, that in functions with large counts, and whether anybody asked.
#[derive(Default)]
pub struct Names(HashMap<String, (Type, Type, bool)>);

impl Names {
    /// From a line of the table: `TYPE: NAMES`, `TYPE | TYPE: NAMES`.
    pub fn add(&mut self, line: &str) -> Result<(), String> {
        let (types, names) = line.split_once(':').ok_or_else(|| format!("type {line}: whose?"))?;
        let (small, large) = types.split_once('|').unwrap_or((types, types));
        for name in names.split_whitespace() {
            let told = (Type::short(small)?, Type::short(large)?, false);
            if self.0.insert(name.to_owned(), told).is_some() {
                return Err(format!("the type of {name}: twice"));
            }
        }
        Ok(())
    }

    pub fn of(&mut self, name: &str, is_large: bool) -> Option<Type> {
        let (small, large, used) = self.0.get_mut(name)?;
        *used = true;
        Some(if is_large { large.clone() } else { small.clone() })
    }

    pub fn all_used(&self) -> Result<(), String> {
        match self.0.iter().find(|(_, (.., used))| !used) {
            Some((name, _)) => Err(format!("the type of {name}: nothing has that name")),
            None => Ok(()),
        }
    }
}
