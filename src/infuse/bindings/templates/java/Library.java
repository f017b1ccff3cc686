package @NAME@;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;

/** The library of native code: a resource beside the classes, or the file that the property `@NAME@.library` names. */
final class Library {
  private static boolean loaded;

  private Library() {}

  static synchronized void load() {
    if (loaded) return;
    String stated = System.getProperty("@NAME@.library");
    Path file = null;
    if (stated != null) {
      System.load(Path.of(stated).toAbsolutePath().toString());
    } else if ((file = extracted("@LIBRARY@")) != null) {
      System.load(file.toString());
      file.toFile().delete(); // where a system keeps files that are in use, it is removed at the end
      file.toFile().deleteOnExit();
    } else {
      System.loadLibrary("@NAME@");
    }
    loaded = true;
  }

  /** A resource as a temporary file; null where there is none. */
  static Path extracted(String name) {
    try (InputStream content = Library.class.getResourceAsStream(name)) {
      if (content == null) return null;
      Path file = Files.createTempFile("@NAME@-", name);
      Files.copy(content, file, StandardCopyOption.REPLACE_EXISTING);
      return file;
    } catch (IOException error) {
      throw new ModelException(ModelException.BAD_INPUT, name + " cannot be extracted: " + error);
    }
  }
}
