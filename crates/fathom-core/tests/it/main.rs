//! Laws of the core, held in virtual time.

/// Declares two tests of each law: in a few worlds for `make test`, in many for `make acceptance`.
macro_rules! tiers {
    ($($law:ident: $few:expr, $many:expr;)+) => {
        mod quick {
            $(
                #[test]
                fn $law() {
                    super::$law($few);
                }
            )+
        }

        mod acceptance {
            $(
                #[test]
                fn $law() {
                    super::$law($many);
                }
            )+
        }
    };
}

mod ceiling;
mod chance;
mod limits;
mod policy;
mod probe;
mod query;
mod world;
