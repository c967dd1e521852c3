import Glibc

/// Whether tests run in their long form.
let isSoak = getenv("SOAK") != nil
