import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.io.IOException;
import java.io.InputStream;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.SQLTransientConnectionException;
import java.sql.Statement;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.postgresql.util.DriverInfo;

/**
 * One application on HikariCP and pgjdbc: requests at a steady rate, whatever became of those before. The contract of
 * arguments and output is in ../README.md.
 */
public final class Client {
    private static final long SECOND = 1_000_000_000L;

    private static int answered;
    private static int failed;
    private static int ambiguous;

    /** One request. Whoever comes first, its answer or the caller's deadline, ends it. */
    private static final class Request implements Runnable {
        private final HikariDataSource pool;
        private final CountDownLatch all;
        private final int number;
        private final long dueNs;
        private final long beginNs;
        private boolean sent;
        private boolean over;

        Request(HikariDataSource pool, CountDownLatch all, int number, long dueNs, long beginNs) {
            this.pool = pool;
            this.all = all;
            this.number = number;
            this.dueNs = dueNs;
            this.beginNs = beginNs;
        }

        private synchronized void isSent() {
            sent = true;
        }

        /** Only the first call counts. */
        synchronized void end(boolean hasAnswer, String error) {
            if (over) {
                return;
            }
            over = true;
            String end = hasAnswer ? "answered" : sent ? "ambiguous" : "failed";
            long waited = System.nanoTime() - beginNs - dueNs;
            String kind = error == null ? "null" : '"' + error + '"';
            tell(end, "{\"n\":%d,\"due_ns\":%d,\"end\":\"%s\",\"waited_ns\":%d,\"error\":%s}"
                    .formatted(number, dueNs, end, waited, kind));
            all.countDown();
        }

        /** What a caller does; it may go on after its deadline, as a thread in a blocking call does. */
        @Override
        public void run() {
            try (Connection connection = pool.getConnection(); Statement statement = connection.createStatement()) {
                isSent();
                try (ResultSet result = statement.executeQuery("SELECT 1")) {
                    result.next();
                    end(true, null);
                }
            } catch (SQLTransientConnectionException e) {
                end(false, "pool");
            } catch (SQLException e) {
                end(false, e.getSQLState() == null ? "other" : "server:" + e.getSQLState());
            }
        }
    }

    private static synchronized void tell(String end, String line) {
        switch (end) {
            case "answered" -> answered++;
            case "failed" -> failed++;
            default -> ambiguous++;
        }
        System.out.println(line);
    }

    private static String hikariVersion() throws IOException {
        Properties about = new Properties();
        String place = "/META-INF/maven/com.zaxxer/HikariCP/pom.properties";
        try (InputStream text = HikariDataSource.class.getResourceAsStream(place)) {
            about.load(text);
        }
        return about.getProperty("version");
    }

    private static Map<String, String> arguments(String[] words) {
        Map<String, String> values = new HashMap<>(Map.of("--host", "127.0.0.1", "--port", "5432", "--rate", "1",
                "--for", "10", "--deadline", "5", "--idle-limit", "7", "--begin", "0", "--settings", "default"));
        for (int i = 0; i < words.length; i += 2) {
            if (!values.containsKey(words[i]) || i + 1 == words.length) {
                System.err.println(words[i] + ": no such argument, or its value is missing");
                System.exit(2);
            }
            values.put(words[i], words[i + 1]);
        }
        return values;
    }

    public static void main(String[] words) throws InterruptedException, IOException {
        Map<String, String> given = arguments(words);
        double rate = Double.parseDouble(given.get("--rate"));
        double lasts = Double.parseDouble(given.get("--for"));
        long deadlineNs = (long) (Double.parseDouble(given.get("--deadline")) * SECOND);
        boolean advised = given.get("--settings").equals("advised");
        if (rate <= 0 || deadlineNs <= SECOND || !(advised || given.get("--settings").equals("default"))) {
            System.err.println("a rate above 0, a deadline above 1 and settings default or advised are needed");
            System.exit(2);
        }
        String url = "jdbc:postgresql://" + given.get("--host") + ":" + given.get("--port") + "/postgres?user=app";
        HikariConfig config = new HikariConfig();
        String applied = "{}";
        if (advised) {
            // The interval of the keepalives is the kernel's (net.ipv4.tcp_keepalive_time): Java has no default of its own.
            long timeout = deadlineNs / SECOND - 1;
            url += "&tcpKeepAlive=true&connectTimeout=%d&socketTimeout=%d".formatted(timeout, timeout);
            config.setValidationTimeout(1000);
            applied = ("{\"tcpKeepAlive\":true,\"connectTimeout\":%d,\"socketTimeout\":%d,\"validationTimeout\":1000}")
                    .formatted(timeout, timeout);
        }
        config.setJdbcUrl(url);
        // The pool opens its connections at once. Made long before the first request they would be idle for all that time.
        long beginMs = Long.parseLong(given.get("--begin"));
        Thread.sleep(beginMs == 0 ? 0 : Math.max(0, beginMs - System.currentTimeMillis() - 500));
        HikariDataSource pool = new HikariDataSource(config);
        long wait = beginMs == 0 ? 0 : beginMs - System.currentTimeMillis();
        long beginNs = System.nanoTime() + wait * 1_000_000;
        int due = 0;
        while (due / rate < lasts) {
            due++;
        }
        CountDownLatch all = new CountDownLatch(due);
        ExecutorService callers = Executors.newCachedThreadPool();
        ScheduledExecutorService clock = Executors.newScheduledThreadPool(1);
        for (int number = 0; number < due; number++) {
            long dueNs = (long) (number / rate * SECOND);
            Request request = new Request(pool, all, number, dueNs, beginNs);
            long in = beginNs + dueNs - System.nanoTime();
            clock.schedule(() -> callers.execute(request), in, TimeUnit.NANOSECONDS);
            clock.schedule(() -> request.end(false, "deadline"), in + deadlineNs, TimeUnit.NANOSECONDS);
        }
        all.await();
        String version = "HikariCP " + hikariVersion() + ", pgjdbc "
                + DriverInfo.DRIVER_VERSION + ", Java " + System.getProperty("java.version");
        System.out.println(("{\"due\":%d,\"answered\":%d,\"failed\":%d,\"ambiguous\":%d,\"library\":\"hikaricp\","
                + "\"version\":\"%s\",\"settings\":\"%s\",\"applied\":%s}")
                .formatted(due, answered, failed, ambiguous, version, given.get("--settings"), applied));
        System.out.flush();
        // What still waits for a dead connection waits for as long as TCP does: nothing is owed to it.
        Runtime.getRuntime().halt(0);
    }
}
