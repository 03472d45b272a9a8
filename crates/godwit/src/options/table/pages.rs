//! The table of the options that concern what people look at: the status page, metrics, the command `status`.

use godwit_program::options::{Commands, FilePlace, Form, OptionSpec, values as plain};

use super::{CommandName, Godwit, OF_NODE, PAGES, setting, values};
use crate::options::rpc::Place;

/// In the order in which the help lists them.
pub(super) const OPTIONS: &[OptionSpec<Godwit>] = &[
    OptionSpec {
        form: Form::Switch {
            placeholder: "ADDRESS[:PORT]",
            expected: "an address of this machine alone (127.0.0.1 or ::1) and perhaps a port, or 0 for none",
        },
        commands: OF_NODE,
        group: PAGES,
        ..setting(
            "web",
            "",
            "",
            "Show a page with the state of the node, at http://127.0.0.1:8338/ unless another address of this \
             machine is given (default: 0). It has no password, and can change nothing.",
            |draft, text| {
                draft.rpc.pages.web = Some(Place::parse(text, |text| {
                    values::ip_port(text).filter(|place| place.is_loopback())
                })?);
                Some(())
            },
        )
    },
    OptionSpec {
        form: Form::Switch {
            placeholder: "ADDRESS[:PORT]",
            expected: "an IP address and perhaps a port, or 0 for none",
        },
        commands: OF_NODE,
        group: PAGES,
        ..setting(
            "metrics",
            "",
            "",
            "Serve figures to Prometheus at http://127.0.0.1:9332/metrics, or at another address \
             (default: 0). All who can reach that address read them without a password.",
            |draft, text| {
                draft.rpc.pages.metrics = Some(Place::parse(text, values::ip_port)?);
                Some(())
            },
        )
    },
    OptionSpec {
        form: Form::Flag,
        file: FilePlace::Nowhere,
        commands: Commands::Only(&[CommandName::Status]),
        group: PAGES,
        ..setting("json", "", "", "Have the command status print JSON.", |draft, text| {
            draft.rpc.pages.json = plain::flag(text)?;
            Some(())
        })
    },
];
