//! The files that are installed with a program: its manual page, completions for shells, an example of the
//! configuration file. All of them are made from the program's tables.

use std::fmt::Write;

use crate::options::{
    CommandSpec, FilePlace, Form, OptionSpec, Program, all_commands, all_options,
};

/// A program as its manual describes it.
pub struct Manual {
    pub name: &'static str,
    /// A few words.
    pub what: &'static str,
    pub about: &'static str,
    /// What is typed, and what it does.
    pub commands: Vec<(String, &'static str)>,
    /// Titles, and the options below each.
    pub groups: Vec<(&'static str, Vec<Line>)>,
    /// Codes and what they mean.
    pub exits: Vec<(String, &'static str)>,
}

/// An option.
#[derive(Clone, Copy)]
pub struct Line {
    pub name: &'static str,
    /// What follows `=`, if something does, and whether it may be left out.
    pub value: Option<(&'static str, bool)>,
    pub help: &'static str,
    /// It may stand in the configuration file.
    pub in_file: bool,
}

impl Line {
    fn of<P: Program>(spec: &OptionSpec<P>) -> Self {
        Self {
            name: spec.name,
            value: match spec.form {
                Form::Flag => None,
                Form::Switch { placeholder, .. } => Some((placeholder, true)),
                Form::Value { placeholder, .. } => Some((placeholder, false)),
            },
            help: spec.help,
            in_file: !matches!(spec.file, FilePlace::Nowhere | FilePlace::OtherProgram),
        }
    }

    fn heading(&self) -> String {
        match self.value {
            None => format!("-{}", self.name),
            Some((value, true)) => format!("-{}[={value}]", self.name),
            Some((value, false)) => format!("-{}={value}", self.name),
        }
    }

    /// Whether a file or a directory is wanted.
    fn wants_path(&self) -> bool {
        matches!(self.value, Some(("FILE" | "DIR", _)))
    }
}

/// A sentence is enough for a shell's list, and one without defaults.
fn first_sentence(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once(" (") {
        let (inside, after) = behind.split_once(')').unwrap_or((behind, ""));
        kept.push_str(before);
        if !inside.contains("default") {
            kept.push_str(&format!(" ({inside})"));
        }
        rest = after;
    }
    kept.push_str(rest);
    let ends = [". ", "; "].into_iter().filter_map(|mark| kept.find(mark));
    kept.truncate(ends.min().unwrap_or(kept.len()));
    kept.trim_end_matches('.').to_owned()
}

impl Manual {
    /// Of a program with tables.
    pub fn of<P: Program>(what: &'static str) -> Self {
        let unnamed = P::WITHOUT_COMMAND.map(|(_, spec)| spec);
        let typed = |spec: &CommandSpec<P>| {
            let words = [spec.words, "[options]"].join(" ");
            (format!("{}{}", words.trim_start(), spec.operands), spec.help)
        };
        let lines = |group: &&'static str| {
            let of_group = all_options::<P>().filter(|option| option.group == *group);
            (*group, of_group.map(Line::of).collect())
        };
        Self {
            name: P::NAME,
            what,
            about: P::ABOUT,
            commands: unnamed.into_iter().chain(all_commands::<P>()).map(typed).collect(),
            groups: P::GROUPS.iter().map(lines).collect(),
            exits: P::EXITS.iter().map(|exit| (exit.code().to_string(), exit.meaning())).collect(),
        }
    }

    fn lines(&self) -> impl Iterator<Item = &Line> {
        self.groups.iter().flat_map(|(_, lines)| lines)
    }

    /// Words of the commands that have some.
    fn words(&self) -> Vec<&str> {
        let word = |(typed, _): &(String, _)| typed.find(" [options]");
        let mut words: Vec<&str> = Vec::new();
        for command in &self.commands {
            if let Some(end) = word(command) {
                words.push(&command.0[..end]);
            }
        }
        words
    }

    /// What a command may begin with, each word with a space behind it, and the words that may follow.
    fn next_words(&self) -> Vec<(String, Vec<&str>)> {
        let mut next: Vec<(String, Vec<&str>)> = Vec::new();
        for words in self.words() {
            let mut typed = String::new();
            for word in words.split(' ') {
                match next.iter_mut().find(|(before, _)| *before == typed) {
                    Some((_, known)) if known.contains(&word) => {}
                    Some((_, known)) => known.push(word),
                    None => next.push((typed.clone(), vec![word])),
                }
                typed.push_str(word);
                typed.push(' ');
            }
        }
        next
    }

    /// The commands of two words: the first ones, and what may follow each.
    fn second_words(&self) -> Vec<(String, String)> {
        let next = self.next_words().into_iter();
        let of_one = next.filter(|(before, _)| before.matches(' ').count() == 1);
        of_one.map(|(before, words)| (before.trim_end().to_owned(), words.join(" "))).collect()
    }

    /// The files of `contrib/` that are made of the table, by their paths there.
    pub fn files(&self) -> Vec<(String, String)> {
        let name = self.name;
        vec![
            (format!("man/{name}.1"), self.page()),
            (format!("completions/{name}.bash"), self.bash()),
            (format!("completions/_{name}"), self.zsh()),
            (format!("completions/{name}.fish"), self.fish()),
        ]
    }

    /// Section 1 of the manual, for `man`.
    fn page(&self) -> String {
        let mut text = format!(
            ".TH {} 1 \"\" \"{} {}\" \"User Commands\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n",
            self.name.to_uppercase(),
            self.name,
            env!("CARGO_PKG_VERSION"),
            self.name,
            roff(self.what)
        );
        let mut say = |line: String| writeln!(text, "{line}").expect("a string takes all");
        for (n, (typed, _)) in self.commands.iter().enumerate() {
            if n > 0 {
                say(".br".to_owned());
            }
            say(format!(".B {}\n{}", self.name, roff(typed)));
        }
        say(format!(".SH DESCRIPTION\n{}", roff(self.about)));
        say(".SH COMMANDS".to_owned());
        for (typed, help) in &self.commands {
            say(format!(".TP\n.B {}\n{}", roff(typed), roff(help)));
        }
        for (title, lines) in &self.groups {
            say(format!(".SH \"{}\"", title.to_uppercase()));
            for line in lines {
                say(format!(".TP\n.B {}\n{}", roff(&line.heading()), roff(line.help)));
            }
        }
        say(".SH \"EXIT STATUS\"".to_owned());
        for (code, meaning) in &self.exits {
            say(format!(".TP\n.B {}\n{}", roff(code), roff(meaning)));
        }
        say(".SH FILES\n.TP\n.B ~/.godwit/godwit.conf\noptions, one a line".to_owned());
        text
    }

    /// For bash.
    fn bash(&self) -> String {
        let function = format!("_{}", self.name.replace('-', "_"));
        let paths: Vec<String> = self
            .lines()
            .filter(|line| line.wants_path())
            .map(|line| format!("-{}=*", line.name))
            .collect();
        let completed: Vec<String> = self
            .lines()
            .map(|line| match line.value {
                Some((_, false)) => format!("-{}=", line.name),
                _ => format!("-{}", line.name),
            })
            .collect();
        let path_case = match paths.is_empty() {
            true => String::new(),
            false => format!(
                "        {})\n            COMPREPLY=($(compgen -f -- \"${{current#*=}}\"))\n            return ;;\n",
                paths.join("|")
            ),
        };
        format!(
            "# Completion of {name} for bash. Made of the table of options: cargo xtask contrib\n\
             {function}() {{\n    local current=\"${{COMP_LINE:0:COMP_POINT}}\"\n    current=\"${{current##* }}\"\n    \
             COMPREPLY=()\n    case \"$current\" in\n{path_case}        -*=*)\n            return ;;\n        -*)\n            \
             COMPREPLY=($(compgen -W \"{options}\" -- \"$current\"))\n            \
             [[ ${{COMPREPLY[0]-}} == *= ]] && compopt -o nospace\n            return ;;\n    esac\n\
             {operands}}}\ncomplete -o filenames -F {function} {name}\n",
            name = self.name,
            options = completed.join(" "),
            operands = self.bash_operands(),
        )
    }

    /// Where no option is typed: the value of one, the next word of a command, or a file behind it. A program
    /// with commands takes values as words of their own.
    fn bash_operands(&self) -> String {
        let files = "COMPREPLY=($(compgen -f -- \"$current\"))";
        let next = self.next_words();
        if next.is_empty() {
            return format!("    {files}\n");
        }
        let names = |wants_path: bool| -> String {
            let valued = self.lines().filter(|line| matches!(line.value, Some((_, false))));
            let of_kind = valued.filter(|line| line.wants_path() == wants_path);
            of_kind.map(|line| format!(" -{}", line.name)).collect()
        };
        let mut text = format!(
            "    local before=\"${{COMP_LINE:0:COMP_POINT}}\" typed=\"\" option=\"\" word words\n    \
             local paths=\"{paths}\"\n    local others=\"{others} \"\n    \
             read -ra words <<< \"${{before% *}}\"\n    \
             for word in \"${{words[@]:1}}\"; do\n        if [[ $word == -* ]]; then\n            \
             option=\"${{word/#--/-}}\"\n            continue\n        fi\n        \
             [[ $paths$others == *\" $option \"* ]] || typed+=\"$word \"\n        option=\"\"\n    done\n    \
             if [[ \"$paths \" == *\" $option \"* ]]; then\n        {files}\n        return\n    fi\n    \
             [[ $others == *\" $option \"* ]] && return\n    case \"$typed\" in\n",
            paths = names(true),
            others = names(false),
        );
        for (typed, words) in next {
            let words = words.join(" ");
            writeln!(
                text,
                "        \"{typed}\")\n            COMPREPLY=($(compgen -W \"{words}\" -- \"$current\")) ;;"
            )
            .expect("a string takes all");
        }
        text + &format!("        *)\n            {files} ;;\n    esac\n")
    }

    /// For zsh.
    fn zsh(&self) -> String {
        let quoted = |text: &str| {
            text.replace('\'', "'\\''").replace('[', "\\[").replace(']', "\\]").replace(':', "\\:")
        };
        let mut text = format!(
            "#compdef {name}\n# Completion of {name} for zsh. Made of the table of options: cargo xtask contrib\n\
             _arguments \\\n",
            name = self.name
        );
        for line in self.lines() {
            let help = quoted(&first_sentence(line.help));
            let (equals, value) = match line.value {
                None => ("", String::new()),
                Some((value, may_be_left_out)) => {
                    let action = if line.wants_path() { "_files" } else { "" };
                    let colons = if may_be_left_out { "::" } else { ":" };
                    ("=-", format!("{colons}{}:{action}", quoted(value)))
                }
            };
            writeln!(text, "  '-{}{equals}[{help}]{value}' \\", line.name)
                .expect("a string takes all");
        }
        let words = self.words();
        let first: Vec<&str> = words.iter().filter_map(|words| words.split(' ').next()).collect();
        match first.is_empty() {
            true => text.push_str("  '*:argument:_files'\n"),
            false => {
                writeln!(text, "  '1:command:({})' \\", unique(&first).join(" "))
                    .expect("a string takes all");
                let second = self.second_words().into_iter();
                let cases: String = second
                    .map(|(first, words)| format!("({first}) compadd - {words};; "))
                    .collect();
                if !cases.is_empty() {
                    let action = format!("{{ case $line[1] in {cases}(*) _files;; esac }}");
                    writeln!(text, "  '2:argument:{action}' \\").expect("a string takes all");
                }
                text.push_str("  '*:file:_files'\n");
            }
        }
        text
    }

    /// For fish.
    fn fish(&self) -> String {
        let quoted = |text: &str| text.replace('\\', "\\\\").replace('\'', "\\'");
        let mut text = format!(
            "# Completion of {} for fish. Made of the table of options: cargo xtask contrib\n",
            self.name
        );
        for line in self.lines() {
            let takes = match line.value {
                Some((_, false)) if line.wants_path() => " -r -F",
                Some((_, false)) => " -x",
                _ => "",
            };
            let help = quoted(&first_sentence(line.help));
            writeln!(text, "complete -c {} -o {}{takes} -d '{help}'", self.name, line.name)
                .expect("a string takes all");
        }
        let words = self.words();
        let first: Vec<&str> = words.iter().filter_map(|words| words.split(' ').next()).collect();
        for word in unique(&first) {
            writeln!(text, "complete -c {} -n __fish_use_subcommand -a {word}", self.name)
                .expect("a string takes all");
        }
        for (first, words) in self.second_words() {
            let seen = "__fish_seen_subcommand_from";
            writeln!(
                text,
                "complete -c {} -n '{seen} {first}; and not {seen} {words}' -f -a '{words}'",
                self.name
            )
            .expect("a string takes all");
        }
        text
    }

    /// An example of the configuration file, in which nothing is set.
    pub fn config_file(&self) -> String {
        let mut text = String::from(
            "# Options of godwit, one a line: name=value. What is commented out here does nothing.\n\
             # Lines after [main], [test], [testnet4], [signet] or [regtest] count on that network only.\n\
             # Made of the table of options: cargo xtask contrib\n",
        );
        for (title, lines) in &self.groups {
            let of_file: Vec<&Line> = lines.iter().filter(|line| line.in_file).collect();
            if of_file.is_empty() {
                continue;
            }
            writeln!(text, "\n## {title}").expect("a string takes all");
            for line in of_file {
                text.push('\n');
                for part in wrapped(line.help, 96) {
                    writeln!(text, "# {part}").expect("a string takes all");
                }
                let value = line.value.map_or("1", |(value, _)| value);
                writeln!(text, "#{}={value}", line.name).expect("a string takes all");
            }
        }
        text
    }
}

fn unique<'a>(words: &[&'a str]) -> Vec<&'a str> {
    let mut kept: Vec<&str> = Vec::new();
    for word in words {
        if !kept.contains(word) {
            kept.push(word);
        }
    }
    kept
}

/// Text for roff: no line of it is a request, and its hyphens are those that are typed.
fn roff(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    match text.starts_with(['.', '\'']) {
        true => format!("\\&{text}"),
        false => text,
    }
}

fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("there is one");
        if !last.is_empty() && last.len() + 1 + word.len() > width {
            lines.push(word.to_owned());
        } else {
            if !last.is_empty() {
                last.push(' ');
            }
            last.push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manual() -> Manual {
        let line = |name, value, help| Line { name, value, help, in_file: name != "help" };
        Manual {
            name: "prog-x",
            what: "does it",
            about: "It's a program.",
            commands: vec![
                ("[options]".to_owned(), "Run."),
                ("do it [options] FILE".to_owned(), ".Do it."),
            ],
            groups: vec![(
                "Options",
                vec![
                    line("help", None, "Print this; and stop."),
                    line("file", Some(("FILE", false)), "Read [it]: all."),
                    line("web", Some(("ADDRESS", true)), "Show it's page (default: 0; 1: yes)."),
                ],
            )],
            exits: vec![("0".to_owned(), "done")],
        }
    }

    #[test]
    fn a_page_has_no_line_that_is_a_request_by_accident() {
        let page = manual().page();
        assert!(page.contains(".TP\n.B do it [options] FILE\n\\&.Do it.\n"), "{page}");
        assert!(page.contains(".B \\-web[=ADDRESS]\n"), "{page}");
        assert!(page.starts_with(".TH PROG-X 1 "));
    }

    #[test]
    fn shells_are_told_names_and_what_they_take() {
        let manual = manual();
        assert!(manual.bash().contains("-W \"-help -file= -web\""), "{}", manual.bash());
        assert!(manual.bash().contains("-W \"do\"") && manual.bash().contains("-file=*)"));
        assert!(manual.bash().contains("\"do \")\n            COMPREPLY=($(compgen -W \"it\""));
        assert!(
            manual.zsh().contains("'-file=-[Read \\[it\\]\\: all]:FILE:_files' \\\n"),
            "{}",
            manual.zsh()
        );
        assert!(
            manual.zsh().contains("'-web=-[Show it'\\''s page]::ADDRESS:' \\\n"),
            "{}",
            manual.zsh()
        );
        assert!(manual.fish().contains("-o web -d 'Show it\\'s page'\n"), "{}", manual.fish());
        assert!(manual.fish().contains("-n __fish_use_subcommand -a do\n"));
        assert!(manual.zsh().contains("in (do) compadd - it;; (*) _files;; esac"));
        assert!(manual.fish().contains("subcommand_from do; and not"), "{}", manual.fish());
    }

    /// What bash offers behind a line.
    fn offered(line: &str) -> String {
        let mut manual = manual();
        manual.groups[0].1.push(Line {
            name: "n",
            value: Some(("N", false)),
            help: "",
            in_file: true,
        });
        let script = manual.bash().replace("compgen -f", "compgen -W a-file")
            + "\n\
                      COMP_LINE=$1; COMP_POINT=${#1}; compopt() { :; }; _prog_x; echo \"${COMPREPLY[@]}\"";
        let mut bash = std::process::Command::new("bash");
        let ended = bash.args(["-c", &script, "bash", line]).output().expect("there is bash");
        assert!(ended.stderr.is_empty(), "{}", String::from_utf8_lossy(&ended.stderr));
        String::from_utf8(ended.stdout).expect("UTF-8").trim_end().to_owned()
    }

    #[test]
    fn a_value_that_is_a_word_of_its_own_is_no_command() {
        for (line, words) in [
            ("prog-x ", "do"),
            ("prog-x -", "-help -file= -web -n="),
            ("prog-x -n ", ""),
            ("prog-x --n 1", ""),
            ("prog-x -n 1 d", "do"),
            ("prog-x -n=1 d", "do"),
            ("prog-x -file ", "a-file"),
            ("prog-x -file=", "a-file"),
            ("prog-x --file x ", "do"),
            ("prog-x -web ", "do"),
            ("prog-x do -n 1 ", "it"),
            ("prog-x do it -n 1 ", "a-file"),
        ] {
            assert_eq!(offered(line), words, "{line}");
        }
    }

    #[test]
    fn a_shell_lists_a_sentence_without_defaults() {
        for (help, listed) in [
            ("Use it (default: 1, else 0; 2: never). It is good.", "Use it"),
            ("Ask (8 at once, default: 8), as always; or not.", "Ask, as always"),
            ("See http://127.0.0.1:1/ (of 1.2.3.0/24).", "See http://127.0.0.1:1/ (of 1.2.3.0/24)"),
            ("a: one. b: two (default: a).", "a: one"),
        ] {
            assert_eq!(first_sentence(help), listed);
        }
    }

    #[test]
    fn the_example_of_the_file_sets_nothing() {
        let text = manual().config_file();
        assert!(text.lines().all(|line| line.is_empty() || line.starts_with('#')), "{text}");
        assert!(
            text.contains("# Read [it]: all.\n#file=FILE\n") && !text.contains("#help"),
            "{text}"
        );
    }

    #[test]
    fn lines_are_wrapped() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("longer-than-that x", 7), ["longer-than-that", "x"]);
    }
}
