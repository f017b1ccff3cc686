package @NAME@;

import java.nio.*;

/** What the model gives. */
public final class Outputs {
@OUTPUTS@}
