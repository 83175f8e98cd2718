import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.zip.CRC32;
import java.util.zip.Deflater;
import java.util.zip.Inflater;

/** Collections, direct buffers and native compression in eight threads; the output is fixed. */
public final class Workload {
    private static long work() throws Exception {
        long state = 42;
        CRC32 crc = new CRC32();
        for (int round = 0; round < 40; round++) {
            Map<String, List<Integer>> groups = new HashMap<>();
            for (int i = 0; i < 3000; i++) {
                state = state * 6364136223846793005L + 1442695040888963407L;
                int value = (int) (state >>> 40);
                groups.computeIfAbsent("group" + value % 97, key -> new ArrayList<>()).add(value);
            }
            StringBuilder text = new StringBuilder();
            for (Map.Entry<String, List<Integer>> group : new TreeMap<>(groups).entrySet()) {
                Collections.sort(group.getValue());
                text.append(group.getKey()).append(group.getValue());
            }
            byte[] bytes = text.toString().getBytes("UTF-8");
            ByteBuffer direct = ByteBuffer.allocateDirect(bytes.length + round * 4096);
            direct.put(bytes).flip();
            ByteBuffer packed = ByteBuffer.allocateDirect(bytes.length);
            Deflater deflater = new Deflater(1);
            deflater.setInput(direct);
            deflater.finish();
            deflater.deflate(packed);
            deflater.end();
            packed.flip();
            ByteBuffer back = ByteBuffer.allocateDirect(bytes.length);
            Inflater inflater = new Inflater();
            inflater.setInput(packed);
            inflater.inflate(back);
            inflater.end();
            back.flip();
            if (!back.equals(ByteBuffer.wrap(bytes))) {
                throw new IllegalStateException("inflate gave other bytes");
            }
            crc.update(back);
        }
        return crc.getValue();
    }

    public static void main(String[] args) throws Exception {
        long expected = work();
        System.out.println(expected);
        ExecutorService pool = Executors.newFixedThreadPool(8);
        List<Future<Long>> answers = new ArrayList<>();
        for (int i = 0; i < 8; i++) {
            answers.add(pool.submit(Workload::work));
        }
        for (Future<Long> answer : answers) {
            if (answer.get() != expected) {
                throw new IllegalStateException("a thread differs");
            }
        }
        pool.shutdown();
        System.out.println(answers.size() + " threads agree");
    }
}
