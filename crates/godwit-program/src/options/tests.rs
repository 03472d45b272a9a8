use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::thread;

use rustix::fs::{CWD, Mode, OFlags, mkfifoat};
use tempfile::TempDir;

use super::*;
use crate::exit::Exit;

/// A program that only tests have.
struct Bird;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Does {
    Fly,
    Land,
    SingLoudly,
}

#[derive(Default)]
struct Flight {
    height: Option<u32>,
    quiet: bool,
    songs: Vec<String>,
    nests: Vec<String>,
}

const OPTIONS: &[OptionSpec<Bird>] = &[
    setting(
        "height",
        "METRES",
        "a number of metres",
        "How high (default: 5).",
        |draft: &mut Flight, text| {
            draft.height = Some(values::number(text)?);
            Some(())
        },
    ),
    OptionSpec {
        form: Form::Flag,
        group: "Options of fly",
        commands: Commands::Only(&[Does::Fly]),
        ..setting(
            "quiet",
            "",
            "",
            "Without a sound, so that nothing on the ground looks up and nobody who keeps a list of \
             birds has another line in it.",
            |draft: &mut Flight, text| {
                draft.quiet = values::flag(text)?;
                Some(())
            },
        )
    },
    OptionSpec {
        file: FilePlace::PerNetwork,
        commands: Commands::Only(&[Does::Land]),
        repeats: true,
        ..setting("nest", "PLACE", "a place", "Where to land.", |draft: &mut Flight, text| {
            draft.nests.push(text.to_str().filter(|place| !place.is_empty())?.to_owned());
            Some(())
        })
    },
    OptionSpec {
        file: FilePlace::Nowhere,
        repeats: true,
        networks: &[Network::Regtest],
        ..setting("song", "TEXT", "text", "What to sing.", |draft: &mut Flight, text| {
            draft.songs.push(text.to_str()?.to_owned());
            Some(())
        })
    },
];

impl Program for Bird {
    type Command = Does;
    type Draft = Flight;

    const NAME: &'static str = "bird";
    const ABOUT: &'static str = "It has feathers.";
    const WITHOUT_COMMAND: Option<(&'static str, &'static CommandSpec<Self>)> = None;
    const COMMANDS: &'static [&'static [CommandSpec<Self>]] = &[&[
        CommandSpec {
            command: Does::Fly,
            words: "fly",
            operands: " PLACE PLACE...",
            count: 2..=usize::MAX,
            help: "Fly over PLACEs.",
        },
        CommandSpec {
            command: Does::Land,
            words: "land",
            operands: "",
            count: 0..=0,
            help: "Land.",
        },
        CommandSpec {
            command: Does::SingLoudly,
            words: "sing loudly",
            operands: "",
            count: 0..=0,
            help: "Sing.",
        },
    ]];
    const OPTIONS: &'static [&'static [OptionSpec<Self>]] = &[OPTIONS];
    const GROUPS: &'static [&'static str] = &[GENERAL, NETWORK, "Options of fly"];
    const ELSEWHERE: &'static [(&'static str, &'static str)] = &[("swim", "fish")];
    const OTHER_LINES: OtherLines = OtherLines::All;
    const EXITS: &'static [Exit] = &[Exit::Success, Exit::Configuration];
}

/// With this configuration file, if it is not empty.
fn parsed(config: &str, arguments: &[&str]) -> Result<Invocation<Bird>, String> {
    let home = TempDir::new().expect("a temporary directory");
    if !config.is_empty() {
        let datadir = home.path().join(DEFAULT_DATADIR);
        fs::create_dir(&datadir).expect("a directory");
        fs::write(datadir.join(CONFIG_FILE), config).expect("a file");
    }
    let place = format!("{}/", home.path().display());
    parse(arguments.iter().map(OsString::from), Some(home.path()))
        .map_err(|error| error.to_string().replace(&place, ""))
}

fn invoked(config: &str, arguments: &[&str]) -> Invoked<Bird> {
    match parsed(config, arguments) {
        Ok(Invocation::Run(invoked)) => invoked,
        Ok(Invocation::Print(text)) => panic!("{text}"),
        Err(error) => panic!("{error}"),
    }
}

fn error(config: &str, arguments: &[&str]) -> String {
    parsed(config, arguments).err().expect("an error")
}

fn help() -> String {
    match parsed("", &["-help"]) {
        Ok(Invocation::Print(text)) => text,
        _ => panic!("no help"),
    }
}

#[test]
fn commands_have_as_many_operands_as_they_take() {
    let flown = invoked("", &["fly", "a", "-height=7", "b", "-quiet"]);
    assert_eq!((flown.command, flown.operands.len()), (Does::Fly, 2));
    assert_eq!((flown.draft.height, flown.draft.quiet), (Some(7), true));
    assert_eq!(flown.origin("height"), Some(&Origin::CommandLine));
    assert_eq!(flown.origin("song"), None);
    assert_eq!(
        error("", &["fly", "a"]),
        "usage: bird fly [options] PLACE PLACE... (operands given: 1)"
    );
    assert_eq!(error("", &["land", "a"]), "usage: bird land [options] (operands given: 1)");
    assert_eq!(error("", &["land", "-quiet"]), "-quiet is not an option of land; -help lists them");
    assert_eq!(error("", &[]), "no command given; see -help");
}

#[test]
fn unknown_commands() {
    for (arguments, message) in [
        (&["lnd"][..], "unknown command 'lnd'; did you mean land?"),
        (&["sing"], "'sing' is incomplete; say one of sing loudly"),
        (&["sing", "loudy"], "unknown command 'sing loudy'; did you mean sing loudly?"),
        (&["sing", "land"], "unknown command 'sing land'; did you mean land?"),
        (&["dig", "land"], "unknown command 'dig'; see -help"),
        (&["swim"], "'swim' is a command of fish; run that instead of bird"),
        (&["swim", "-depth=3"], "'swim' is a command of fish; run that instead of bird"),
        (&["fly", "-depth=3"], "unknown option -depth; see -help"),
        (&["fly", "swim", "a"], ""),
    ] {
        match message {
            "" => assert_eq!(invoked("", arguments).command, Does::Fly),
            _ => assert_eq!(error("", arguments), message, "{arguments:?}"),
        }
    }
}

/// The file is one for all programs.
#[test]
fn lines_for_other_programs_are_skipped() {
    let file = "depth=3\nsignet.depth=x\nheight=4\n[regtest]\nnofins=1\nheight=9\n";
    assert_eq!(invoked(file, &["land"]).draft.height, Some(4));
    let regtest = invoked(file, &["land", "-regtest"]);
    assert_eq!(regtest.draft.height, Some(9));
    assert!(matches!(regtest.origin("height"), Some(Origin::File { line: 6, .. })));
    let place = ".godwit/godwit.conf";
    for (text, message) in [
        ("heigth=3\n", "1: unknown option heigth; did you mean height?"),
        ("datdir=/d\n", "1: unknown option datdir; did you mean datadir?"),
        ("depth\n", "1: expected name=value or [section]"),
        ("song=x\n", "1: song is for the command line only"),
        ("height=x\n", "1: height=x: expected a number of metres"),
    ] {
        assert_eq!(error(text, &["land"]), format!("{place}:{message}"));
    }
}

#[test]
fn help_names_everything_once() {
    let help = help();
    for option in lookup::options::<Bird>() {
        let heading = help.lines().filter(|line| {
            let name = line.strip_prefix("  -").unwrap_or_default();
            name.split(['=', ',']).next() == Some(option.name)
        });
        assert_eq!(heading.count(), 1, "{}", option.name);
    }
    for command in lookup::commands::<Bird>() {
        assert!(help.contains(&format!("\n  bird {} [options]", command.words)));
    }
    let words: Vec<&str> = help.split_whitespace().collect();
    let expected = "These stand on the command line alone: -conf, -help, -song, -version.";
    assert!(words.join(" ").contains(expected), "{help}");
    assert!(help.ends_with("\n    0  done\n    3  the command line or godwit.conf is wrong\n"));
}

#[test]
fn lines_of_the_help_fit() {
    let help = help();
    let too_long: Vec<&str> = help.lines().filter(|line| line.len() > 79).collect();
    assert!(too_long.is_empty(), "{too_long:#?}");
    assert!(help.lines().any(|line| line.len() > 79 - 8), "paragraphs are filled");
}

/// What the table says about each option that every program has, held against what happens.
#[test]
fn the_general_table_is_obeyed() {
    for spec in lookup::options::<Bird>() {
        let in_section = error(&format!("[main]\n{}=\n", spec.name), &["land"]);
        let at_top = error(&format!("{}=\n", spec.name), &["land"]);
        let refused = |message: &str| {
            message.contains("command line only") || message.contains("before the network")
        };
        assert_eq!(refused(&at_top), spec.file == FilePlace::Nowhere, "{at_top}");
        let is_for_sections = matches!(spec.file, FilePlace::PerNetwork | FilePlace::Anywhere);
        assert_eq!(refused(&in_section), !is_for_sections, "{in_section}");
        let negated = error("", &["land", &format!("-no{}=x", spec.name)]);
        let expected = match spec.form {
            Form::Flag | Form::Switch { .. } => "=x: expected 0 or 1",
            Form::Value { off: None, .. } if !spec.repeats => "cannot be switched off",
            Form::Value { .. } => "=x: expected 1, or -",
        };
        assert!(negated.contains(expected), "{negated}");
        if let Form::Value { .. } = spec.form {
            let bare = error("", &["land", &format!("-{}", spec.name)]);
            assert!(bare.contains("needs a value"), "{bare}");
        }
    }
}

/// Core `common/args.cpp`, `GetUnsuitableSectionOnlyArgs`, and `OnlyHasDefaultSectionSetting`.
#[test]
fn what_is_for_main_alone_is_refused_on_other_networks() {
    let top = "# mine\nnest=oak\nnest=elm\n";
    let nests = |file: &str, arguments: &[&str]| {
        invoked(file, &[&["land"], arguments].concat()).draft.nests
    };
    assert_eq!(nests(top, &[]), ["oak", "elm"]);
    for (flag, network) in [
        ("-testnet", "test"),
        ("-testnet4", "testnet4"),
        ("-signet", "signet"),
        ("-regtest", "regtest"),
    ] {
        assert_eq!(
            error(top, &["land", flag]),
            format!(
                ".godwit/godwit.conf:2: Config setting for -nest only applied on {network} network when in \
                 [{network}] section."
            )
        );
        assert_eq!(nests(top, &[flag, "-nest=fir"]), ["fir"], "the command line has it");
        let own = format!("{top}[{network}]\nnest=ash\n");
        assert_eq!(nests(&own, &[flag]), ["ash"]);
        assert_eq!(nests(&own, &[flag, "-nest=fir"]), ["ash", "fir"]);
        assert_eq!(nests(&format!("{network}.nest=ash\n{top}"), &[flag]), ["ash"]);
        assert_eq!(nests(&own, &[]), ["oak", "elm"], "of main");
    }
    // The file may choose the network itself; another section is none of it.
    let chosen = error(&format!("{top}signet=1\n[regtest]\nnest=ash\n"), &["land"]);
    assert!(chosen.contains("when in [signet] section."), "{chosen}");
    // Other commands, which it does not concern, run with the file.
    assert_eq!(invoked(top, &["sing", "loudly", "-regtest"]).command, Does::SingLoudly);
}

/// Core `common/settings.cpp`, `GetSettingsList`.
#[test]
fn a_negation_voids_what_its_source_says_before_and_farther_ones_say() {
    let nests = |file: &str, arguments: &[&str]| {
        invoked(file, &[&["land"], arguments].concat()).draft.nests
    };
    let none: [&str; 0] = [];
    assert_eq!(nests("", &["-nest=oak", "-nonest"]), none);
    assert_eq!(nests("", &["-nest=oak", "-nonest=1", "-nest=elm"]), ["elm"]);
    assert_eq!(nests("nest=oak\nnonest=1\nnest=elm\nnest=fir\n", &[]), ["elm", "fir"]);
    // A negation is the command line's last word, or one of the section's: what is farther is void.
    assert_eq!(nests("nest=oak\n[main]\nnest=elm\n", &["-nonest"]), none);
    assert_eq!(nests("nest=oak\n[main]\nnonest=1\n", &[]), none);
    // A value after it, or a nearer one, brings that back.
    assert_eq!(nests("nest=oak\n", &["-nonest", "-nest=elm"]), ["oak", "elm"]);
    let section = "nest=oak\n[main]\nnonest=1\n";
    assert_eq!(nests(section, &["-nest=elm"]), ["oak", "elm"]);
    // On another network the lines at the top are nobody's, and neither are their negations. (Core refuses
    // the last of these, though it would use nothing: `OnlyHasDefaultSectionSetting` sees no list.)
    assert_eq!(nests("nest=oak\nnonest=1\n", &["-regtest"]), none);
    assert_eq!(nests("nonest=1\n[regtest]\nnest=elm\n", &["-regtest"]), ["elm"]);
    assert_eq!(nests("nest=oak\n", &["-regtest", "-nonest"]), none);

    assert_eq!(invoked("", &["land", "-song=a", "-nosong"]).draft.songs, none, "on main");
    assert_eq!(
        error("", &["fly", "a", "b", "-nonest"]),
        "-nest is not an option of fly; -help lists them"
    );
    assert_eq!(error("", &["land", "-nonets"]), "unknown option -nonets; did you mean -nonest?");
}

#[test]
fn a_negation_takes_no_value_but_a_second_negation_of_what_can_be_on() {
    let quiet = |option: &str| invoked("", &["fly", "a", "b", option]).draft.quiet;
    assert!(quiet("-noquiet=0") && !quiet("-noquiet=1") && !quiet("-noquiet"));
    for (option, message) in [
        ("-noquiet=x", "-noquiet=x: expected 0 or 1"),
        ("-nonest=0", "-nonest=0: expected 1, or -nest with a value"),
        ("-noheight=0", "-height cannot be switched off with -noheight"),
    ] {
        assert_eq!(error("", &["fly", "a", "b", option]), message);
    }
    assert_eq!(
        error("noquiet=x\n", &["land"]),
        ".godwit/godwit.conf:1: noquiet=x: expected 0 or 1"
    );
}

/// Core warns: "Section [sea] is not recognized."
#[test]
fn sections_that_name_no_network_are_passed_over_and_said() {
    let text = "sea.depth=1\nheight=4\n[Regtest]\ndepth=5\ndepth=x\n[main]\nquiet=1\n[sea]\n";
    let invoked = invoked(text, &["land"]);
    assert_eq!((invoked.draft.height, invoked.draft.quiet), (Some(4), true));
    let file = invoked.config_file.expect("it was read");
    let said = [
        "1: [sea] is no network: passed over",
        "3: [Regtest] is no network (did you mean regtest?): passed over",
        "8: [sea] is no network: passed over",
    ];
    assert_eq!(invoked.passed_over, said.map(|said| format!("{}:{said}", file.display())));
    for (text, message) in [
        ("[sea]\nheight=1\n", "2: height is in no network's section"),
        ("sea.height=1\n", "1: height is in no network's section"),
        ("[sea]\n-height=1\n", "2: options in the file have no leading dash"),
        ("[sea]\nheight\n", "2: expected name=value or [section]"),
    ] {
        assert_eq!(error(text, &["land"]), format!(".godwit/godwit.conf:{message}"));
    }
}

#[test]
fn in_the_place_of_the_file_nothing_is_waited_for_that_may_never_come() {
    let home = TempDir::new().expect("a temporary directory");
    let datadir = home.path().join(DEFAULT_DATADIR);
    fs::create_dir(&datadir).expect("a directory");
    let path = datadir.join(CONFIG_FILE);
    let height = || {
        let parsed = parse::<Bird>(["land"].map(OsString::from), Some(home.path()));
        match parsed {
            Ok(Invocation::Run(invoked)) => Ok(invoked.draft.height),
            Ok(Invocation::Print(text)) => panic!("{text}"),
            Err(error) => Err(error.to_string()),
        }
    };
    let refused = |why: &str| -> Result<Option<u32>, String> {
        Err(format!("configuration file {}: {why}", path.display()))
    };

    fs::create_dir(&path).expect("a directory");
    assert_eq!(height(), refused("Is a directory (os error 21)"));
    fs::remove_dir(&path).expect("it is there");
    for (device, expected) in [("null", Ok(None)), ("zero", refused("file too large"))] {
        symlink(Path::new("/dev").join(device), &path).expect("a link");
        assert_eq!(height(), expected, "{device}");
        fs::remove_file(&path).expect("it is there");
    }

    mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).expect("a pipe");
    assert_eq!(height(), refused("it is a pipe that nothing writes into"));
    // What is written stays, as there is a reader.
    let at_once = OFlags::NONBLOCK.bits().cast_signed();
    let reader = File::options().read(true).custom_flags(at_once).open(&path).expect("a pipe");
    let mut writer = File::options().write(true).open(&path).expect("it has a reader");
    let read = thread::scope(|scope| {
        let read = scope.spawn(height);
        writer.write_all(b"height=4\n").expect("there is room");
        drop(writer);
        read.join().expect("it ends")
    });
    assert_eq!(read, Ok(Some(4)));
    drop(reader);
    fs::remove_file(&path).expect("it is there");

    // As `<(true)` is one, once the program has ended: nobody else can open it for writing.
    let (reader, writer) = io::pipe().expect("a pipe");
    symlink(format!("/proc/self/fd/{}", reader.as_raw_fd()), &path).expect("a link");
    drop(writer);
    assert_eq!(height(), Ok(None));
}

#[test]
fn a_comment_may_be_in_any_encoding() {
    let parsed = |text: &[u8]| ConfigFile::<Bird>::parse("f".into(), text);
    let Ok(file) = parsed(b"# H\xf6he\nheight=4 # \xfcber dem Meer\n") else {
        panic!("it is read");
    };
    assert_eq!(file.top().count(), 1);
    let outside = parsed(b"\nheight=4\xb2 # x\n").err().expect("no comment");
    assert_eq!(outside.to_string(), "f:2: not UTF-8");
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_first_line() {
    assert_eq!(invoked("\u{feff}height=4\n", &["land"]).draft.height, Some(4));
    assert_eq!(
        invoked("\u{feff}[regtest]\nheight=4\n", &["land", "-regtest"]).draft.height,
        Some(4)
    );
    assert_eq!(invoked("\u{feff}", &["land"]).draft.height, None);
    let twice = error("\u{feff}\u{feff}height=4\n", &["land"]);
    assert!(twice.contains(":1: unknown option \u{feff}height"), "{twice}");
    let later = error("height=4\n\u{feff}height=5\n", &["land"]);
    assert!(later.contains(":2: unknown option \u{feff}height"), "{later}");
}

#[test]
fn networks_that_an_option_has_not() {
    assert_eq!(invoked("", &["land", "-regtest", "-song=a", "-song=b"]).draft.songs, ["a", "b"]);
    assert_eq!(error("", &["land", "-song=a"]), "-song is for regtest, but the network is main");
}

/// Any bytes are either a configuration or an error; a multiplicative generator makes them.
#[test]
fn arbitrary_files_do_not_panic() {
    let words = ["[", "]", "test", "main", ".", "=", "no", "height", "5", "\n", "#", "-", "\u{e9}"];
    let mut state = 1u32;
    let mut parsed = 0;
    for _ in 0..20_000 {
        let mut text = String::new();
        for _ in 0..8 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            text.push_str(words[(state >> 16) as usize % words.len()]);
        }
        parsed += usize::from(ConfigFile::<Bird>::parse("f".into(), text.as_bytes()).is_ok());
    }
    assert!(parsed > 0, "some of them are configurations");
}

#[test]
fn an_error_is_one_short_line_whatever_was_written() {
    assert_eq!(error("", &["land", "-height=\n"]), "-height=\\x0a: expected a number of metres");
    assert_eq!(
        error("height=\x1b[31mred\n", &["land"]),
        ".godwit/godwit.conf:1: height=\\x1b[31mred: expected a number of metres"
    );
    let long = "x".repeat(5_000);
    let cut = format!("{}…", "x".repeat(200));
    for (word, message) in [
        (format!("-height={long}"), format!("-height={cut}: expected a number of metres")),
        (format!("-nonest={long}"), format!("-nonest={cut}: expected 1, or -nest with a value")),
        (format!("-{long}"), format!("unknown option -{cut}; see -help")),
    ] {
        assert_eq!(error("", &["land", &word]), message);
    }
    let unknown = format!("unknown command '{cut}'; see -help");
    assert_eq!(error("", &[&long]), unknown);
    let refused = Problem::Refused { option: "nest", value: long.clone(), reason: long.clone() };
    assert_eq!(refused.on_command_line().to_string(), format!("-nest={cut}: {cut}"));
    let path = PathBuf::from("a\nb");
    let problem = Problem::ConfigUnreadable { path, error: io::ErrorKind::NotFound.into() };
    assert!(!problem.on_command_line().to_string().contains('\n'));
    let skipped = invoked(&format!("[{long}]\n"), &["land"]);
    let said = &skipped.passed_over[0];
    assert!(said.ends_with(&format!("[{cut}] is no network: passed over")), "{said}");
}
