package @NAME@;

import java.nio.*;

/** What the model takes. */
public final class Inputs {
@INPUTS@}
