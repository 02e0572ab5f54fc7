//! Floods of twenty seconds against a reflector in a namespace.

mod floods;
