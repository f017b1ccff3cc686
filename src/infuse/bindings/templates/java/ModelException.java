package @NAME@;

/** Why something failed: what is wrong, and where. */
public final class ModelException extends RuntimeException {
  private static final long serialVersionUID = 1;
  /** Inputs or weights do not fit the model. */
  public static final int BAD_INPUT = -1;
  /** There is no memory. */
  public static final int OUT_OF_MEMORY = 1;
  /** Elements of inputs are not what the model takes. */
  public static final int BAD_DATA = 2;
  /** The run was cancelled. */
  public static final int CANCELLED = 3;
  /** A context cannot be opened so. */
  public static final int BAD_OPTIONS = 4;
  /** The system does not let the process use tile registers. */
  public static final int REFUSED = 5;

  private final int code;

  ModelException(int code, String text) {
    super(text);
    this.code = code;
  }

  /** Which kind: one of the constants, or another number of the C interface. */
  public int code() {
    return code;
  }
}
