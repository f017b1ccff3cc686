import add.Inputs;
import add.Model;
import add.Outputs;
import add.Session;
import add.Tensor;
import java.util.Locale;

/** Nanoseconds of a call by the classes of Java. */
public final class Call {
  private static double least(Runnable call) {
    double best = 1e18;
    for (int round = 0; round < 60; round++) {
      long start = System.nanoTime();
      for (int i = 0; i < 20000; i++) call.run();
      best = Math.min(best, (System.nanoTime() - start) / 20000.0);
    }
    return best;
  }

  public static void main(String[] arguments) {
    try (Model model = Model.load();
        Session session = model.session(1)) {
      Inputs inputs = new Inputs().x(Tensor.of(new float[] {1}, 1)).y(Tensor.of(new float[] {2}, 1));
      Outputs outputs = new Outputs();
      double reused = least(() -> session.run(inputs, outputs));
      double fresh = least(() -> session.run(inputs));
      System.out.println(String.format(Locale.ROOT, "%.1f %.1f %.0f", reused, fresh, outputs.z().data().get(0)));
    }
  }
}
