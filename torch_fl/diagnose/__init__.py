"""Says what is wrong when native libraries do not load. Imports neither torch nor any library it examines.

    finding     the records: Finding, Report and what they are made of
    explain     facts -> Finding, one function per code; every sentence a user reads
    hunt        which directory on this machine holds a missing name
    trial       the second opinion: a child process that really loads the target
    checks      the ordered tuple of checks
    render_*    Report -> text, JSON
    cli         sub-commands and exit status
"""
