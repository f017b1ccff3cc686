import conduct.Inputs;
import conduct.Model;
import conduct.ModelException;
import conduct.Outputs;
import conduct.Session;
import conduct.Tensor;
import java.nio.DoubleBuffer;
import java.nio.FloatBuffer;
import java.nio.LongBuffer;
import java.nio.file.Path;
import java.util.Locale;

/** How a session conducts itself where something is wrong, and with several threads: weights wrong_weights. */
public final class Conduct {
  private static void failing(String what, Runnable call) {
    try {
      call.run();
      System.out.println(what + ": nothing failed");
    } catch (ModelException error) {
      System.out.println(what + ": " + error.code() + " " + error.getMessage());
    } catch (IllegalArgumentException error) {
      System.out.println(what + ": " + error.getMessage());
    }
  }

  private static String text(String format, Object... values) {
    return String.format(Locale.ROOT, format, values);
  }

  public static void main(String[] arguments) throws InterruptedException {
    float[] ones = {1, 1, 1, 1, 1, 1, 1, 1};
    Tensor<FloatBuffer> x = Tensor.of(ones, 2, 4);
    Tensor<DoubleBuffer> y = Tensor.of(new double[] {10, 10, 10, 10}, 4);
    Tensor<LongBuffer> three = Tensor.of(new long[] {3}), places = Tensor.of(new long[] {2, 0}, 2);
    Inputs good = new Inputs().x(x).y(y).times(three).places(places);
    Model model = Model.load(Path.of(arguments[0]));
    Session session = model.session(2);
    Outputs out = session.run(good);
    System.out.println(
        text("run: %.1f %.1f %.1f", out.z().data().get(7), out.w().data().get(3), out.picked().data().get(0)));
    failing("formula", () -> session.run(new Inputs().x(x).y(Tensor.doubles(3)).times(three).places(places)));
    failing("size", () -> session.run(new Inputs().x(Tensor.floats(4, 2)).y(y).times(three).places(places)));
    failing("axes", () -> session.run(new Inputs().x(Tensor.floats(8)).y(y).times(three).places(places)));
    failing("elements", () -> Tensor.of(new float[7], 2, 4));
    failing("missing", () -> session.run(new Inputs().x(x).times(three).places(places)));
    failing("huge", () -> Tensor.floats(Long.MAX_VALUE, 4));
    failing("data", () -> session.run(new Inputs().x(x).y(y).times(three).places(Tensor.of(new long[] {3}, 1))));
    failing("weights", () -> Model.load(Path.of(arguments[1])));
    failing("absent", () -> Model.load(Path.of("/none")));

    double[] sums = new double[2];
    Thread[] threads = new Thread[2];
    for (int i = 0; i < 2; i++) {
      int own = i;
      threads[i] =
          new Thread(
              () -> {
                try (Session other = model.session(1)) {
                  Outputs reused = new Outputs();
                  for (int k = 0; k < 200; k++) sums[own] += other.run(good, reused).z().data().get(0);
                }
              });
      threads[i].start();
    }
    for (Thread thread : threads) thread.join();
    System.out.println(text("threads: %.1f %.1f", sums[0], sums[1]));

    Thread stopper =
        new Thread(
            () -> {
              try {
                Thread.sleep(100);
              } catch (InterruptedException error) {
                throw new IllegalStateException(error);
              }
              session.cancel(true);
            });
    stopper.start();
    Tensor<LongBuffer> endless = Tensor.of(new long[] {1L << 40});
    failing("cancelled", () -> session.run(new Inputs().x(x).y(y).times(endless).places(places)));
    stopper.join();
    session.cancel(false);
    System.out.println(text("again: %.1f", session.run(good).z().data().get(0)));
    System.out.println(
        text(
            "halves: %.7e %.7f %04x %04x",
            Tensor.fromFloat16(Tensor.float16(1e-7f)),
            Tensor.fromBfloat16(Tensor.bfloat16(3.1415927f)),
            Tensor.float16(65520f),
            Tensor.bfloat16(-0f)));
    model.close();
    failing("model closed", () -> model.session(1));
    session.close();
    session.close();
    failing("closed", () -> session.run(good));
  }
}
